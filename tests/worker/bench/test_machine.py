"""What a benchmark writes beside its numbers about the machine."""

import sys
from pathlib import Path

import pytest
from defaults import ROOT

sys.path.insert(0, str(ROOT / "benches"))
import machine


def test_the_processor_is_named_with_what_makes_it_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "cpuinfo"
    one = "processor\t: 0\nmodel name\t: Some Chip\nflags\t\t: fpu avx2 avx512f amx_tile\n"
    told.write_text(one + one.replace("Some", "Another"))
    monkeypatch.setattr(machine, "CPUINFO", told)
    assert "cores with AVX2, AVX-512, AMX (Some Chip), no GPU used" in machine.device()


def test_a_system_without_cpuinfo_still_has_a_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "none")
    assert machine.features() == []
    assert "cores (" in machine.device()
