"""Documents that share a beginning: losses and gradients are those of the whole documents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from defaults import cli, save_base
from learnt import assert_learnt
from tiny import CONFIGS, apart, gradients, lora, plain_loss

from expert_worker.train.engine import PlainEngine, _disturb
from expert_worker.train.fast.batch import IGNORED, PackedBatch, positions_of
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place, install, token_keys
from expert_worker.train.objective import SupervisedFineTuning

# A family of three, a document alone, a family of two: tokens of each, and of its beginning in the first.
LENGTHS, SHARED = (19, 7, 5, 11, 14, 9), (0, 12, 12, 0, 0, 8)


def shared(*, keys: bool = False) -> PackedBatch:
    torch.manual_seed(11)
    total = sum(LENGTHS)
    ids = torch.randint(1, 97, (total,))
    labels = torch.where(torch.rand(total) < 0.6, ids, IGNORED)
    positions = torch.cat([torch.arange(n) + s for n, s in zip(LENGTHS, SHARED, strict=True)])
    start = 0
    for place, (length, begins) in enumerate(zip(LENGTHS, SHARED, strict=True)):
        # What others continue, and the first token behind it, is not learned.
        unlearned = max([1, *[number + 1 for number in _after(place)]]) if begins == 0 else 1
        labels[start : start + unlearned] = IGNORED
        start += length
    drawn = token_keys(1, 1, list(range(len(LENGTHS))), list(LENGTHS)) if keys else None
    return PackedBatch(ids, labels, positions, LENGTHS, drawn, shared=SHARED)


def _after(place: int) -> list[int]:
    found = []
    for number in SHARED[place + 1 :]:
        if number == 0:
            break
        found.append(number)
    return found


def test_whole_documents_have_the_shared_tokens_before_them() -> None:
    batch = shared()
    whole = batch.whole()
    assert whole.lengths == (19, 19, 17, 11, 14, 17) == batch.whole_lengths and whole.shared == ()
    assert torch.equal(whole.positions, positions_of(whole.lengths))
    documents = torch.split(whole.ids, whole.lengths)
    assert torch.equal(documents[1], torch.cat([batch.ids[:12], batch.ids[19:26]]))
    assert torch.equal(documents[5], torch.cat([batch.ids[42:50], batch.ids[56:]]))
    assert (torch.split(whole.labels, whole.lengths)[2][:13] == IGNORED).all()
    assert torch.equal(whole.targets, batch.targets)
    assert whole.whole() is whole


@pytest.mark.parametrize("kind", sorted(CONFIGS))
@pytest.mark.parametrize("dora", [False, True])
def test_the_loss_and_every_gradient_are_those_of_whole_documents(kind: str, dora: bool) -> None:
    model = lora(kind, dora=dora)
    batch = shared()
    expected = plain_loss(model, batch.whole())
    expected.backward()
    wanted = gradients(model)
    place = Place()
    install(model, place)
    loss = FastDecoder(model, place).loss(batch)
    loss.backward()
    found = gradients(model)
    assert apart(loss, expected) < 1e-5
    assert max(apart(found[name], wanted[name]) for name in wanted) < 1e-5


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_bf16_is_as_near_as_separate_documents_are(checkpointing: str) -> None:
    model = lora()
    place = Place()
    install(model, place)
    FastDecoder(model, place).loss(shared().whole()).backward()
    exact = gradients(model)
    decoder = FastDecoder(model.to(torch.bfloat16), place, checkpointing=checkpointing)
    errors = []
    for batch in (shared(), shared().whole()):
        decoder.loss(batch).backward()
        found = gradients(model)
        errors.append(max(apart(found[name], exact[name]) for name in exact))
    assert errors[0] < 1.5 * errors[1] < 0.2


def test_families_stay_together_in_pieces() -> None:
    batch = shared()
    pieces = batch.pieces(3)
    assert [piece.shared for piece in pieces] == [(0, 12, 12), (0,), (0, 8)]
    model = lora()
    decoder = FastDecoder(model, Place())
    together = decoder.loss(batch)
    assert apart(sum(decoder.loss(piece.filled(32)) for piece in pieces), together) < 1e-6
    assert batch.pieces(1) == [batch]


def test_several_experts_batches_keep_what_they_share() -> None:
    plain = PackedBatch(torch.arange(4), torch.arange(4), torch.arange(4), (4,))
    joined = PackedBatch.of_experts([plain, shared()])
    assert joined.shared == (0, *SHARED)
    assert PackedBatch.of_experts([plain, plain]).shared == ()
    assert joined.to(torch.device("meta")).shared == joined.shared


def test_the_plain_path_lays_them_out_whole() -> None:
    model, batch = lora(dropout=0.2), shared(keys=True)
    place = Place()
    install(model, place)
    engine = PlainEngine(model, SupervisedFineTuning(), place, 1, torch.device("cpu"))
    assert apart(engine.loss(batch), engine.loss(batch.whole())) < 1e-6
    fast = FastDecoder(model, place).loss(batch)
    assert apart(engine.backward(batch, 1.0), fast) < 1e-5


def test_noise_is_scaled_by_whole_documents() -> None:
    model, batch = lora(), shared(keys=True)
    decoder = FastDecoder(model, Place(), neftune=5.0)
    quiet = FastDecoder(model, Place())
    noise = (decoder._embed(batch) - quiet._embed(batch)).abs().max(1).values
    sizes = [part.max() for part in torch.split(noise, LENGTHS)]
    limits = [5.0 / (length * 32) ** 0.5 for length in batch.whole_lengths]
    assert all(0.8 * limit < size <= limit * 1.001 for size, limit in zip(sizes, limits, strict=True))


def test_shared_tokens_have_the_same_noise_on_the_plain_path() -> None:
    model, batch = lora(), shared(keys=True)
    place = Place()
    fast = FastDecoder(model, place, neftune=50.0).loss(batch)
    fast.backward()
    wanted = gradients(model)
    _disturb(model, place, 50.0)
    cpu = torch.device("cpu")
    for passes in (False, True):
        engine = PlainEngine(model, SupervisedFineTuning(), place, 1, cpu, 50.0, passes=passes)
        assert apart(engine.backward(batch, 1.0), fast) < 1e-5
        found = gradients(model)
        assert max(apart(found[name], wanted[name]) for name in wanted) < 1e-5
    assert apart(FastDecoder(model, place).loss(batch), fast) > 1e-3


TABLES = "CREATE TABLE hives (id INTEGER PRIMARY KEY, label TEXT, apiary TEXT, honey_kg REAL, checked DATE);"


def rows(count: int) -> str:
    """Eight questions about each of some tables, each in a separate row."""
    made: list[dict[str, object]] = []
    for place in range(count):
        tables = TABLES.replace("hives", f"hives_{place // 8}")
        asked = f"{tables}\nhow much honey did hive {place % 8} give"
        answer = f"SELECT honey_kg FROM hives_{place // 8} WHERE label = '{place % 8}'"
        turns = (("user", asked), ("assistant", answer))
        made.append({"messages": [{"role": role, "content": text} for role, text in turns]})
    return "".join(json.dumps(row) + "\n" for row in made)


def expert(folder: Path, base: Path, *, share: bool, **settings: object) -> Path:
    config = {
        "adapter_type": "lora",
        "rank": 4,
        "alpha": 8,
        "learning_rate": 0.01,
        "batch_size": 1,
        "max_seq_length": 1024,
        "packing": True,
        "share_prefixes": share,
        "epochs": 1,
        **settings,
    }
    folder.mkdir()
    (folder / "train.jsonl").write_text(rows(96))
    manifest = {
        "name": f"expert-{folder.name}",
        "schema_version": "2.0",
        "base_models": [{"name": str(base)}],
        "training": {"dataset": {"path": "train.jsonl"}, "config": config},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def train(folder: Path, *arguments: str) -> str:
    command = [str(cli()), "train", *arguments, "--allow-path", str(folder)]
    environment = {**os.environ, "EXPERT_PYTHON": sys.executable}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def trained(folder: Path, *, share: bool, **settings: object) -> dict[str, object]:
    base = save_base(folder.with_suffix(".base"))
    made = expert(folder, base, share=share, **settings)
    result: dict[str, object] = json.loads(train(made, "--manifest", "manifest.json", "-o", "run", "--json"))
    return result


@pytest.mark.timeout(900)
def test_a_manifest_s_rows_are_learnt_in_fewer_tokens(tmp_path: Path) -> None:
    together = trained(tmp_path / "shared", share=True)
    separate = trained(tmp_path / "apart", share=False)
    assert_learnt(tmp_path / "shared" / "run")
    tokens = [int(str(it["tokens"])) for it in (together, separate)]
    assert tokens[0] < 0.6 * tokens[1]
    applied = (tmp_path / "shared" / "run" / "events.jsonl").read_text()
    assert "tokens are not repeated" in applied and "nothing-shared" not in applied
    described = json.loads(next((tmp_path / "shared").rglob("cache.json")).read_text())
    split = described["splits"]["train"]
    assert split["documents"] == 96 and split["shared_tokens"] > split["tokens"] // 2


def test_a_setting_that_changes_nothing_is_named(tmp_path: Path) -> None:
    trained(tmp_path / "short", share=True, max_seq_length=256, max_steps=1)
    assert "nothing-shared" in (tmp_path / "short" / "run" / "events.jsonl").read_text()


@pytest.mark.timeout(900)
def test_experts_in_one_pass_have_the_bytes_of_separate_ones(tmp_path: Path) -> None:
    base = save_base(tmp_path / "base")
    for place, name in enumerate(("one", "two")):
        expert(tmp_path / name, base, share=True, seed=place + 1)
    train(tmp_path, "--fuse", "one,two")
    for name in ("one", "two"):
        train(tmp_path, name, "-o", f"{name}/alone")
        (together,) = (tmp_path / name / "weights").glob("*/final/adapter_model.safetensors")
        alone = tmp_path / name / "alone" / "final" / "adapter_model.safetensors"
        assert together.read_bytes() == alone.read_bytes()
