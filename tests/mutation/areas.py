"""Which tests guard which module. Few and quick: they run once for every fault that is put into it."""

from __future__ import annotations

from dataclasses import dataclass

_CHECKPOINT = "tests/worker/checkpoint/test_checkpoint"
_FILES = "tests/worker/checkpoint/test_files.py"
_RECORD = "tests/worker/checkpoint/test_record.py"
_EDGES = "tests/worker/checkpoint/test_store_edges.py"
_SHAPES = "tests/worker/checkpoint/test_compatible_shapes.py"


@dataclass(frozen=True)
class Python:
    """A module of the worker, and the files of tests that guard it; these start no process."""

    module: str
    tests: tuple[str, ...]

    @property
    def source(self) -> str:
        return f"worker/python/{self.module.replace('.', '/')}.py"


@dataclass(frozen=True)
class Rust:
    """Files of one crate, and what `cargo test` is given to run the tests that guard them."""

    crate: str
    folder: str
    files: tuple[str, ...]
    tests: tuple[str, ...]


def _python(name: str, *tests: str) -> Python:
    return Python(f"expert_worker.{name}", tests)


def _tests(*names: str) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("--test", name))


AREAS: dict[str, Python | Rust] = {
    "compatible": _python("checkpoint.compatible", f"{_CHECKPOINT}_compatible.py", _SHAPES),
    "files": _python("checkpoint.files", f"{_CHECKPOINT}_store.py", _FILES),
    "record": _python("checkpoint.record", f"{_CHECKPOINT}_store.py", _RECORD),
    "retention": _python("checkpoint.retention", f"{_CHECKPOINT}_retention.py"),
    "store": _python("checkpoint.store", f"{_CHECKPOINT}_store.py", _EDGES),
    "tensors": _python("checkpoint.tensors", f"{_CHECKPOINT}_store.py", _FILES),
    "verify": _python("checkpoint.verify", f"{_CHECKPOINT}_store.py", _EDGES, _RECORD),
    "loss": _python("train.fast.kernels.head_loss", "tests/worker/train/test_head_loss.py"),
    "batch": _python("train.fast.batch", "tests/worker/train/test_flat.py"),
    "order": _python(
        "train.loader",
        "tests/worker/train/test_loader.py",
        "tests/worker/train/test_order.py",
        "tests/worker/train/test_loaded_rows.py",
    ),
    "cache": _python("pretokenize.cache", "tests/worker/pretokenize/test_cache.py"),
    "cache-record": _python("pretokenize.record", "tests/worker/pretokenize/test_description.py"),
    "digests": _python("run_record.digests", "tests/worker/run_record/test_digests.py"),
    "rules": Rust(
        "expert-contract",
        "contract",
        ("contract/src/rules/*.rs",),
        (*_tests("rule_edges", "samples", "codes", "machine"), "--lib"),
    ),
    "resolve": Rust(
        "expert-contract",
        "contract",
        ("contract/src/resolve/*.rs",),
        (*_tests("plans", "resolve", "paths", "bases", "data_sources"), "--lib"),
    ),
    "lock": Rust(
        "expert-cli",
        "cli",
        ("cli/src/lock/*.rs", "cli/src/sys/digests.rs", "cli/src/train/changed.rs"),
        ("--bins", *_tests("shelf", "train", "matrix", "queue")),
    ),
    "pack": Rust("expert-native", "worker/native", ("worker/native/src/pack.rs",), _tests("pack")),
    "mask": Rust(
        "expert-native",
        "worker/native",
        ("worker/native/src/arrow/write.rs", "worker/native/src/spill.rs"),
        _tests("mask", "spill"),
    ),
}
