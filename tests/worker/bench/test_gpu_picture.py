"""The picture and the table of a result of benches/gpu, from a result that is made here."""

from __future__ import annotations

import copy
import importlib.util
import re
import sys
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

GPU = Path(__file__).parents[3] / "benches" / "gpu"
SVG = "{http://www.w3.org/2000/svg}"
# The mean of digits in a wide font (DejaVu Sans), as a share of its size.
BAD = {"ok": False, "kind": "lora", "dtype": "bf16", "way": "heads"}
CHARACTER, BOLD, SIZES = 0.63, 0.69, {"head": 15, "soft": 12}


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, GPU / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # Where dataclasses look their annotations up, and `picture` its import.
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("shapes", "floor", "programs", "table"):
        load(name, monkeypatch)
    return load("picture", monkeypatch)


def other(key: str, speed: float) -> dict[str, Any]:
    return {"tokens_per_second": speed, "peak_bytes": 9 * 2**30, "versions": {key: "2026.10.9"}}


@pytest.fixture
def result(drawing: ModuleType) -> dict[str, Any]:
    """Every case of a full run: with each program, without memory, without time."""
    shapes = sys.modules["shapes"]
    made = [{"name": it.name, "case": it.as_json()} for it in shapes.cases(tiny=False)]
    for at, case in enumerate(made):
        speed = {
            "tokens_per_second": 155_120.4 - 9_000 * at,
            "peak_bytes": 6 * 2**30,
            "gpu_utilization": 97.6,
        }
        others = {it.key: other(it.key, 61_000.0 + 4_000 * at) for it in drawing.OTHERS}
        for key in others:
            case[f"speed_of_{key}"] = speed["tokens_per_second"] / others[key]["tokens_per_second"]
        case.update({**others, "ours": speed} if at == 0 else {"ours": speed, "trl": others["trl"]})
        case["peak_of_estimate"] = 0.984
    del made[5]["trl"], made[7]["ours"], made[8]["ours"], made[8]["trl"]
    made[5]["trl_failed"] = f"with_trl.py ended with 1: OutOfMemoryError: {'CUDA out of memory. ' * 9}"
    made[7]["ours_failed"] = "<b>\x1b"
    made[8]["left_out"] = "11 s were left"
    return {
        "date": "2026-01-02", "device": "NVIDIA H200", "invalid": None, "peak_operations": 790e12,
        "versions": {"torch": "2.11.0+cu130", "transformers": "5.3.0"}, "not_installed": [],
        "shape": vars(shapes.QWEN_06B), "equality": [{"ok": True}] * 79 + [BAD], "cases": made,
    }  # fmt: skip


def texts(drawn: str) -> list[ET.Element]:
    return list(ET.fromstring(drawn).iter(f"{SVG}text"))


def words(drawn: str) -> list[str]:
    return [it.text or "" for it in texts(drawn)]


def box(text: ET.Element) -> tuple[float, float, float, float]:
    size = SIZES.get(text.get("class", ""), 13)
    x, y = float(text.get("x", "")), float(text.get("y", ""))
    wide = len(text.text or "") * size * (BOLD if text.get("class") in ("head", "alarm") else CHARACTER)
    left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "")]
    return left, y - size, left + wide, y + size * 0.25


def test_speeds_and_shares_of_every_program(drawing: ModuleType, result: dict[str, Any]) -> None:
    drawn = drawing.picture(result)
    said = words(drawn)
    for case in result["cases"]:
        assert case["name"] in said
        for key in (it.key for it in drawing.PROGRAMS if it.key in case):
            speed, limit = case[key]["tokens_per_second"], drawing.floor(case, result)
            at = said.index(f"{speed:,.0f}")
            assert said[at + 1] == f"{speed / limit:.1%}", case["name"]
    names = ["expert-cli", "TRL", "Unsloth", "Axolotl"]
    assert "compared with TRL 2026.10.9, Unsloth 2026.10.9, Axolotl 2026.10.9" in said
    assert said[said.index("lora-2x2048") + 1 :][: 3 * len(names) : 3] == names
    assert said.count("expert-cli") == 9 and said.count("TRL") == 8 and said.count("Axolotl") == 1
    assert "79 of 80 fast paths equal the plain one" in said and "left out: 11 s were left" in said
    assert "<b> " in said and "NOT A MEASUREMENT" not in drawn


def test_bars_are_as_long_as_the_speeds(drawing: ModuleType, result: dict[str, Any]) -> None:
    root = ET.fromstring(drawing.picture(result))
    mine = [float(it.get("width", "")) for it in root.iter(f"{SVG}rect") if it.get("fill") == "#1a7f4b"]
    speeds = [it["ours"]["tokens_per_second"] for it in result["cases"] if "ours" in it]
    assert [it / mine[0] for it in mine] == pytest.approx([it / speeds[0] for it in speeds], rel=2e-3)
    dashed = [it.get("d", "") for it in root.iter(f"{SVG}path") if it.get("class") == "step"]
    limit = drawing.floor(result["cases"][0], result)
    at = float(re.findall(r"M([\d.]+)", dashed[0])[0])
    assert at <= drawing.RIGHT and len(dashed) == 16
    assert (at - drawing.LEFT) / mine[0] == pytest.approx(limit / speeds[0], rel=2e-3)


@pytest.mark.parametrize("reason", ["tiny shapes measure nothing", "the products of this device are wrong"])
def test_what_is_not_a_measurement_says_so(drawing: ModuleType, result: dict[str, Any], reason: str) -> None:
    drawn = drawing.picture(result | {"invalid": reason})
    said = words(drawn)
    assert said[0] == said[-1] == f"NOT A MEASUREMENT: {reason}"
    assert ET.fromstring(drawn).get("aria-label", "").startswith(said[0])


def test_texts_are_inside_and_apart(drawing: ModuleType, result: dict[str, Any]) -> None:
    long = {"device": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "invalid": "w" * 60}
    fast = copy.deepcopy(result["cases"])
    fast[0]["ours"]["tokens_per_second"] = 98_765_432.1
    for changed in ({}, long, {"equality_failed": "x" * 300}, {"cases": fast}, {"peak_operations": 1e9}):
        drawn = drawing.picture(result | changed)
        width, height = map(float, ET.fromstring(drawn).get("viewBox", "").split()[2:])
        boxes = [(it.text, box(it)) for it in texts(drawn)]
        for text, (left, top, right, bottom) in boxes:
            assert left >= 0 and top >= 0 and right <= width and bottom <= height, text
        for (one, a), (other, b) in combinations(boxes, 2):
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (one, other)


def test_nothing_is_loaded_and_nothing_measured_draws(drawing: ModuleType, result: dict[str, Any]) -> None:
    drawn = drawing.picture(result | {"device": "<script>alert(1)</script>"})
    tags = {it.tag.removeprefix(SVG) for it in ET.fromstring(drawn).iter()}
    assert tags == {"svg", "style", "rect", "path", "text", "title"}
    assert "href" not in drawn and "url(" not in drawn and "@import" not in drawn
    nothing = [{"name": "lora-2x64", "case": result["cases"][0]["case"], "left_out": "1 s were left"}]
    alone = result | {"cases": nothing, "peak_operations": None, "equality": []}
    assert "left out: 1 s were left" in words(drawing.picture(alone))


def test_the_table_compares_every_program_in_80_columns(drawing: ModuleType, result: dict[str, Any]) -> None:
    del result["cases"][5]["trl_failed"]
    lines = sys.modules["table"].table(result | {"copied_bytes": 3e12, "launch_seconds": 2e-6}).splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("lora-2x2048"))
    heads = ["case", "tokens/s", "of floor", "speedup", "peak GiB", "of plan", "GPU busy"]
    assert re.split(r"  +", lines[first - 1]) == heads
    share = 155_120.4 / drawing.floor(result["cases"][0], result)
    assert lines[first].split()[1:] == ["155,120", f"{share:.1%}", "6.00", "0.98", "98%"]
    assert [line.split()[0] for line in lines[first + 1 : first + 4]] == ["TRL", "Unsloth", "Axolotl"]
    assert lines[first + 2].split()[3:] == ["2.54x", "9.00"]
    figures = [line for line in lines[first - 1 :] if re.search(r"\d+,\d{3}", line)]
    assert all(len(line) <= 80 for line in figures) and len(figures) == 7 + 8 + 1
    absent = sys.modules["table"].table(result | {"not_installed": ["axolotl"], "peak_operations": None})
    assert absent.splitlines()[-1].startswith("not compared, as not installed: Axolotl ")
