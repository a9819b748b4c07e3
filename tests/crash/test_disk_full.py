"""No room at any write: exit 4, in words, the older checkpoint whole; then room again, and on it goes."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from disks import mount_or_skip, unmount
from trials import Runs, Server

from expert_worker.checkpoint import Store
from expert_worker.checkpoint.verify import verify
from expert_worker.errors import Storage
from expert_worker.events import Events
from expert_worker.results import CheckpointFacts

pytestmark = pytest.mark.timeout(1800)

STEPS = 6
CHANGES = {
    "recipe.schedule.duration": {"unit": "steps", "value": STEPS},
    "recipe.saving": {"strategy": "steps", "steps": 2},
    "machine.save_total_limit": 2,
    "machine.logging": {"steps": 1, "trackers": []},
}
PAGE = 4096
MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB. Mounting needs a privilege that not every machine gives."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux":
        pytest.skip("tmpfs is Linux's")
    options = f"size={MIB},nr_inodes=200,uid={os.getuid()},gid={os.getgid()}"
    mount_or_skip("-t", "tmpfs", "-o", options, "tmpfs", folder)
    yield folder
    unmount(folder)


def parts(step: int) -> dict[str, object]:
    return {
        "adapter_config.json": {"r": 8},
        "adapter_model.safetensors": {"a": torch.full((40, 128), float(step))},
        "optimizer.safetensors": {"m": torch.full((80, 128), float(step))},
    }


def facts() -> CheckpointFacts:
    return CheckpointFacts(
        recipe_digest="d",
        recipe={},
        cache_key="c",
        total_steps=9,
        micro_batch=1,
        totals={},
        metrics={},
    )


def test_a_really_full_disk_at_every_page_of_a_save(small_disk: Path) -> None:
    output = small_disk / "out"
    store = Store(output, Events.in_memory()[0])
    store.open()
    store.commit(1, parts(1), facts())
    refused = 0
    for pages in range(0, 64):
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"")
        free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
        ballast.write_bytes(b"x" * (free - pages * PAGE))
        try:
            store.commit(2, parts(2), facts())
        except Storage as refusal:
            refused += 1
            assert refusal.exit_code == 4 and "checkpoint-2" in refusal.message
            assert "It needs 6" in refusal.message and "are free" in refusal.message
            assert [path.name for path in output.iterdir()] == ["checkpoint-1"], f"{pages} pages"
            assert verify(output / "checkpoint-1").step == 1
        else:
            break
    assert refused >= 15, "the disk was never full"
    assert verify(output / "checkpoint-2").step == 2


def test_refused_at_each_single_write(server: Server, quick_folder: Path, every_trial: bool) -> None:
    runs = Runs(server, quick_folder, CHANGES, stage="expert_test_standin")
    runs.undisturbed()
    saves = [point for point in runs.points if _belongs_to_a_save(point)]
    assert len(saves) >= 20
    for number, point in enumerate(saves if every_trial else saves[::5]):
        name = f"full-{number}"
        answer = runs.go(name, refuse=point)
        assert answer["code"] == 4, f"{point}: {answer}\n{runs.log(name)}"
        for folder in runs.output(name).glob("checkpoint-?"):
            verify(folder)
        runs.finish_and_compare(name, STEPS)


def test_a_folder_that_may_not_be_written_is_exit_4(server: Server, quick_folder: Path) -> None:
    runs = Runs(server, quick_folder, CHANGES, stage="expert_test_standin")
    answer = runs.go("denied", refuse="mkdir checkpoint-2.partial #1")
    assert answer["code"] == 4


def _belongs_to_a_save(point: str) -> bool:
    kind, place, *_ = point.split()
    return (
        kind in {"mkdir", "open", "write", "fsync", "rename"} and "half" not in point and "partial" in place
    )
