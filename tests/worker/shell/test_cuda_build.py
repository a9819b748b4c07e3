"""Which GPUs a build of torch has code for."""

from __future__ import annotations

import pytest

from expert_worker.cuda_build import runs_on

CUDA_13 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]
CUDA_12 = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]


@pytest.mark.parametrize(
    ("capability", "with_13", "with_12"),
    [
        ((6, 1), False, True),
        ((7, 0), False, True),
        ((7, 5), True, True),
        ((8, 9), True, True),
        ((9, 0), True, True),
        ((10, 3), True, False),
        ((12, 1), True, False),
        ((13, 0), True, False),
    ],
)
def test_machine_code_is_for_one_major_version(capability, with_13, with_12):
    assert runs_on(capability, CUDA_13) is with_13
    assert runs_on(capability, CUDA_12) is with_12


def test_code_for_one_gpu_or_a_family_is_for_no_other():
    assert runs_on((9, 0), ["sm_90a"]) and not runs_on((9, 1), ["sm_90a", "compute_90a"])
    assert runs_on((10, 3), ["sm_100f"]) and not runs_on((12, 0), ["sm_100f", "compute_100f"])
    assert runs_on((12, 0), ["compute_80"]) and not runs_on((7, 5), ["compute_80"])


@pytest.mark.parametrize("names", [[], ["gfx942"]])
def test_a_build_that_does_not_say_is_tried(names):
    assert runs_on((7, 0), names)
