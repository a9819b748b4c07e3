"""What a step says of its time, and the switches of the fast path as they are read back."""

import pytest
from scene import put_data, train


def test_a_step_says_where_its_time_went(tmp_path, monkeypatch):
    put_data(monkeypatch)
    steps = train(tmp_path, {"recipe.schedule.duration": {"unit": "steps", "value": 3}}).of("progress")
    assert len(steps) == 3
    for step in steps:
        assert step.host_launch == step.device_compute > 0
        assert step.transfer >= 0
        assert step.data_wait + step.transfer + step.host_launch <= step.seconds


@pytest.mark.parametrize("off", ["document_attention", "chunked_loss", "fused_adapters"])
def test_a_switched_off_part_is_reported_and_changes_no_loss(off, tmp_path, monkeypatch):
    put_data(monkeypatch)
    usual = train(tmp_path)
    other = train(tmp_path, {f"machine.fast_parts.{off}": False}, output="other")
    assert usual.applied[f"fast_parts.{off}"] is True and other.applied[f"fast_parts.{off}"] is False
    assert other.losses == pytest.approx(usual.losses, rel=1e-4)
    kernels = {run.applied["attention.kernel"] for run in (usual, other)}
    assert (kernels == {"flash_cpu", "sdpa_masked"}) == (off == "document_attention")
