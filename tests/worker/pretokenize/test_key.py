"""What names a cache, and that nothing else does: same inputs, same bytes."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pretokenize.bases import gpt2_like, write_base
from pretokenize.workshop import Workshop

from expert_worker.errors import BadInput
from expert_worker.pretokenize.sources import digest_of

ROWS = [{"prompt": f"Question {i}", "completion": f"Answer {i * i}"} for i in range(300)]


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return found.hexdigest()


def test_any_byte_of_the_data_changes_the_key(workshop: Workshop) -> None:
    before = workshop.build(workshop.jsonl(ROWS)).key
    changed = [*ROWS[:-1], {"prompt": "Question 299", "completion": "Answer 89402"}]
    after = workshop.build(workshop.jsonl(changed))
    assert after.key != before and not after.existed
    details = [str(getattr(line, "detail", "")) for line in workshop.said]
    assert any("train changed since the last cache" in detail for detail in details)


CHANGES: list[dict[str, Any]] = [
    {"recipe.template": {"kind": "chatml", "source": None}},
    {"recipe.template": {"kind": "custom", "source": "{% for m in messages %}{{ m.content }}{% endfor %}"}},
    {"recipe.batch.max_seq_length": 64},
    {"recipe.batch.packing": False},
    {"recipe.batch.share_prefixes": True},
    {"recipe.data.train_on": "all"},
    {"recipe.data.train_on": "assistant"},
    {"recipe.data.overlong": "split"},
    {"recipe.data.validation_split": 0.1},
    {"recipe.data.deduplicate": True},
    {"recipe.data.drop_near_copies": True},
    {"recipe.data.min_length": 1},
    {"recipe.data.stopping_strategy": "all_exhausted"},
    {"recipe.data.field_mapping": {"prompt": "prompt", "completion": "completion"}},
    {"recipe.seed": 77},
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_what_decides_the_rows_changes_the_key(workshop: Workshop, change: dict[str, Any]) -> None:
    path = workshop.jsonl(ROWS)
    assert workshop.build(path).key != workshop.build(path, change).key


@pytest.mark.parametrize("changed", [0, (16 << 20) - 1, 16 << 20, (33 << 20) - 1])
def test_any_byte_of_a_long_file_changes_its_digest(workshop: Workshop, changed: int) -> None:
    path = workshop.folder / "long.jsonl"
    content = bytearray(33 << 20)
    path.write_bytes(content)
    before = digest_of([path], 1)
    assert digest_of([path], 4) == before
    content[changed] = 1
    path.write_bytes(content)
    assert digest_of([path], 4) != before


def test_a_short_file_s_digest_is_its_own(workshop: Workshop) -> None:
    path = workshop.jsonl(ROWS)
    assert digest_of([path], None) == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.usefixtures("unchecked")
def test_another_tokenizer_changes_the_key(workshop: Workshop, tmp_path: Path) -> None:
    path = workshop.jsonl(ROWS)
    before = workshop.build(path).key
    workshop.base = write_base(tmp_path / "other", gpt2_like())
    assert workshop.build(path).key != before


@pytest.mark.parametrize(
    "change",
    [
        {"recipe.optimizer.learning_rate": 0.5},
        {"machine.threads.pretokenize": 3},
        {"recipe.adapter.rank": 4},
        {"recipe.batch.rows_per_step": 9},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_does_not_decide_the_rows_leaves_the_cache(workshop: Workshop, change: dict[str, Any]) -> None:
    path = workshop.jsonl(ROWS)
    workshop.build(path)
    assert workshop.build(path, change).existed


def test_threads_give_the_same_bytes(workshop: Workshop) -> None:
    path = workshop.jsonl(ROWS * 130)  # Several parts of the file, so that threads do share the work.
    assert path.stat().st_size > 1 << 20
    digests = set()
    for threads in (1, 2, 5):
        place = {
            "machine.paths.cache": str(workshop.folder / f"cache{threads}"),
            "machine.threads.pretokenize": threads,
        }
        digests.add(digest(workshop.build(path, {**place, "recipe.data.validation_split": 0.1}).folder))
    assert len(digests) == 1


def test_another_process_hash_seed_and_time_zone_give_the_same_bytes(workshop: Workshop) -> None:
    path = workshop.jsonl(ROWS)
    here = workshop.build(path)
    plan = workshop.plan(path, {"machine.paths.cache": str(workshop.folder / "elsewhere")})
    code = (
        "import sys; from expert_worker.plan import parse_plan; from expert_worker.events import Events\n"
        "from expert_worker.pretokenize import ensure_cache\n"
        "print(ensure_cache(parse_plan(sys.stdin.read()), Events.in_memory()[0]).folder)"
    )
    source = str(Path(__file__).parents[3] / "worker" / "python")
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=plan.model_dump_json(by_alias=True),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    there = Path(done.stdout.strip())
    assert there.name == here.key
    assert digest(there) == digest(here.folder)


def test_a_damaged_cache_is_built_again(workshop: Workshop) -> None:
    path = workshop.jsonl(ROWS)
    first = workshop.build(path)
    whole = digest(first.folder)
    arrow = first.folder / "train" / "data-00000-of-00001.arrow"
    arrow.write_bytes(arrow.read_bytes()[:-9])
    again = workshop.build(path)
    assert not again.existed and digest(again.folder) == whole


def test_an_unknown_folder_is_never_overwritten(workshop: Workshop) -> None:
    path = workshop.jsonl(ROWS)
    first = workshop.build(path)
    (first.folder / "cache.json").unlink()
    (first.folder / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="is not a token cache"):
        workshop.build(path)
    assert (first.folder / "notes.txt").read_text() == "mine"


def test_a_foreign_saved_data_set_is_read_with_a_warning(workshop: Workshop) -> None:
    import datasets

    path = workshop.jsonl(ROWS)
    rows = {
        "input_ids": [[1, 2, 3], [4, 5]],
        "labels": [[-100, 2, 3], [4, 5]],
        "attention_mask": [[1, 1, 1], [1, 1]],
    }
    datasets.Dataset.from_dict(rows).save_to_disk(workshop.folder / "cache")
    # What the library leaves there is not of the data set.
    datasets.load_from_disk(workshop.folder / "cache").map(lambda row: {"labels": row["input_ids"]})
    assert list((workshop.folder / "cache").glob("cache-*.arrow"))
    cache = workshop.build(path)
    assert len(cache.train) == 2
    assert [part.tolist() for part in cache.train.row(0)] == [[1, 2, 3], [-100, 2, 3], [3]]
    assert [part.tolist() for part in cache.train.row(1)] == [[4, 5], [4, 5], [2]]
    assert "foreign-cache" in {getattr(line, "code", None) for line in workshop.said}
    assert json.loads((cache.folder / "cache.json").read_text())["splits"]["train"]["supervised_tokens"] == 4


def test_a_foreign_data_set_has_a_training_split_and_no_test_split_validates(workshop: Workshop) -> None:
    import datasets

    path, root = workshop.jsonl(ROWS), workshop.folder / "cache"
    rows = datasets.Dataset.from_dict({"input_ids": [[1, 2]], "labels": [[1, 2]]})
    datasets.DatasetDict({"train_sft": rows, "test": rows}).save_to_disk(root)
    with pytest.raises(BadInput, match='without a split "train": its splits are "test", "train_sft"'):
        workshop.build(path)
    shutil.rmtree(root)
    datasets.DatasetDict({"train": rows, "test": rows}).save_to_disk(root)
    assert workshop.build(path).validation is None
    shutil.rmtree(root)
    datasets.DatasetDict({"train": rows, "eval": rows}).save_to_disk(root)
    assert workshop.build(path).validation is not None


def test_foreign_rows_without_a_learned_token_are_refused(workshop: Workshop) -> None:
    import datasets

    path, root = workshop.jsonl(ROWS), workshop.folder / "cache"
    rows = {"input_ids": [[1, 2], [3]], "labels": [[-100, -100], [-100]]}
    unlearned = datasets.Dataset.from_dict(rows)
    unlearned.save_to_disk(root)
    with pytest.raises(BadInput, match=r"every label of .* is -100, so there is nothing to learn"):
        workshop.build(path)
    shutil.rmtree(root)
    learned = datasets.Dataset.from_dict({**rows, "labels": [[1, 2], [3]]})
    datasets.DatasetDict({"train": learned, "validation": unlearned}).save_to_disk(root)
    with pytest.raises(BadInput, match=r"every label of .*validation is -100, so there is no loss"):
        workshop.build(path)


def test_a_foreign_folder_without_labels_is_refused(workshop: Workshop) -> None:
    import datasets

    path = workshop.jsonl(ROWS)
    datasets.Dataset.from_dict({"input_ids": [[1]]}).save_to_disk(workshop.folder / "cache")
    with pytest.raises(BadInput, match="without the column 'labels'"):
        workshop.build(path)
