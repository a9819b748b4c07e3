"""Bit flips and truncations in every file of the newest checkpoint: detected, skipped, never used."""

import random
import shutil
from pathlib import Path

import pytest
import torch

from expert_worker.checkpoint import Store
from expert_worker.errors import Failed
from expert_worker.events import Events
from expert_worker.results import CheckpointFacts

TRIALS = 200


def facts() -> CheckpointFacts:
    return CheckpointFacts(
        recipe_digest="d" * 64,
        recipe={"seed": 1, "optimizer": {"learning_rate": 1e-05}},
        cache_key="c" * 64,
        total_steps=20,
        micro_batch=2,
        totals={"tokens": 4096},
        metrics={"eval_loss": 0.123456789},
    )


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("intact")
    store = Store(folder, Events.in_memory()[0])
    for step in (10, 20):
        generator = torch.Generator().manual_seed(step)
        tensors = {f"layer.{i}": torch.randn(16, 8, generator=generator) for i in range(4)}
        parts = {
            "adapter_config.json": {"r": 8},
            "adapter_model.safetensors": tensors,
            "optimizer.safetensors": {f"{name}.exp_avg": t * 2 for name, t in tensors.items()},
            "trainer.json": {"rng": [1, 2, 3], "row": step},
        }
        store.commit(step, parts, facts())
    return folder


def spoil(path: Path, draw: random.Random) -> str:
    content = bytearray(path.read_bytes())
    place = draw.randrange(len(content))
    if draw.random() < 0.5:
        content[place] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        return f"bit flip at {place} of {path.name}"
    path.write_bytes(content[:place])
    return f"{path.name} cut at {place}"


def test_every_damage_is_noticed_and_the_older_one_taken(intact: Path, tmp_path: Path) -> None:
    draw = random.Random(6)
    names = sorted(path.name for path in (intact / "checkpoint-20").iterdir())
    assert len(names) == 5
    for number in range(TRIALS):
        folder = tmp_path / "run"
        shutil.copytree(intact, folder)
        what = spoil(folder / "checkpoint-20" / names[number % len(names)], draw)
        events, heard = Events.in_memory()
        store = Store(folder, events)
        with pytest.raises(Failed):
            store.load(folder / "checkpoint-20")
        loaded = store.newest_valid()
        assert loaded is not None and loaded.step == 10, what
        assert [e.body.kind for e in heard.events if e.body.type == "recovered"] == ["damaged_checkpoint"], (
            what
        )
        shutil.rmtree(folder)


def test_a_file_that_is_gone_is_damage_too(intact: Path, tmp_path: Path) -> None:
    for name in [path.name for path in (intact / "checkpoint-20").iterdir()]:
        folder = tmp_path / name
        shutil.copytree(intact, folder)
        (folder / "checkpoint-20" / name).unlink()
        loaded = Store(folder, Events.in_memory()[0]).newest_valid()
        assert loaded is not None and loaded.step == 10, name


def test_all_bad_is_an_error_that_names_each(intact: Path, tmp_path: Path) -> None:
    draw = random.Random(7)
    for number in range(20):
        folder = tmp_path / str(number)
        shutil.copytree(intact, folder)
        for step in (10, 20):
            files = sorted((folder / f"checkpoint-{step}").iterdir())
            spoil(draw.choice(files), draw)
        with pytest.raises(Failed) as failure:
            Store(folder, Events.in_memory()[0]).newest_valid()
        assert "checkpoint-10" in failure.value.message and "checkpoint-20" in failure.value.message


def test_an_intact_one_is_taken_without_a_word(intact: Path, tmp_path: Path) -> None:
    shutil.copytree(intact, tmp_path / "run")
    events, heard = Events.in_memory()
    loaded = Store(tmp_path / "run", events).newest_valid()
    assert loaded is not None and loaded.step == 20 and heard.events == []
