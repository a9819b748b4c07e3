"""Who sees to which rows, and how often one must take part whose rows are done."""

from __future__ import annotations

import pytest
from plans import example_plan

from expert_worker.base import torch_device
from expert_worker.train.distributed import DistContext


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_every_row_has_one_process(size):
    rows = [7, 3, 11, 2, 5]
    shares = [DistContext(number, size).share(rows) for number in range(size)]
    assert sorted(row for share in shares for row in share) == sorted(rows)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(("rows", "micro_batch"), [(5, 2), (4, 4), (1, 3), (12, 1)])
def test_with_a_sharded_base_all_pass_through_the_model_equally_often(rows, micro_batch):
    walked = []
    for number in range(3):
        dist = DistContext(number, 3, sharded=True)
        walked.append(-(-len(dist.share(range(rows))) // micro_batch))
        assert dist.rounds(rows, micro_batch) >= walked[-1]
        assert dist.largest_share(range(rows)) == len(DistContext(0, 3).share(range(rows)))
        alone = DistContext(number, 3)
        assert alone.largest_share(range(rows)) == len(alone.share(range(rows)))
    assert DistContext(0, 3).rounds(rows, micro_batch) == max(walked)


def test_each_process_has_a_device_or_its_part_of_the_cores(tmp_path, monkeypatch):
    on_cpu = example_plan(tmp_path, {"machine.threads.compute": 8})
    assert [DistContext(0, n).threads(on_cpu.machine) for n in (1, 2, 3, 16)] == [8, 4, 2, 1]
    assert [DistContext(0, n).threads_together(on_cpu.machine) for n in (1, 2, 16)] == [8, 8, 8]
    gpu = {"kind": "cuda", "index": 2, "name": "a GPU", "memory_bytes": None}
    on_gpus = example_plan(tmp_path, {"machine.device": gpu})
    assert DistContext(1, 2).threads(on_gpus.machine) == on_gpus.machine.threads.compute
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert [torch_device(on_gpus.machine.device, n).index for n in range(2)] == [2, 3]
