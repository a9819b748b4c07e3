"""Equality and speed on one GPU, in one command: `python -m benches.gpu` (see README.md beside this file).

First every fast path is compared with the plain one and `doctor --prove` decides what runs use on this card,
as before a user's first training. Then LoRA, DoRA and QLoRA are measured on a base of Qwen3-0.6B's shape, and
after each TRL, Unsloth and Axolotl, where they are installed. Each measurement is a separate process; those
that no longer fit into --minutes are left out and named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORKER = ROOT / "worker" / "python"
# A checkout that was carried elsewhere has no native module: the installed worker is used.
PATHS = [
    str(HERE),
    str(HERE.parent),
    *([str(WORKER)] if any((WORKER / "expert_worker").glob("_native*")) else []),
]
sys.path[:0] = PATHS

from history import versions  # noqa: E402
from picture import picture  # noqa: E402
from program import BUILT  # noqa: E402
from programs import OTHERS, OURS, SEPARATE, Program  # noqa: E402
from shapes import QWEN_06B, TINY, Case, Shape, cases, fused_cases  # noqa: E402
from table import table  # noqa: E402

PACKAGES = ("torch", "transformers", "peft", "bitsandbytes", "accelerate", "datasets")
RESULTS = HERE.parent / "results"
# Of the time, the checks of equality may take this much.
EQUALITY_SHARE = 0.45
# Of the card that the aim was set on, in bf16.
H200_OPERATIONS = 790e12


class Budget:
    """The time left, and whether another measurement like the last fits into it."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + minutes * 60
        self._longest = 15.0

    def allows(self) -> bool:
        return self.left > 1.2 * self._longest

    @property
    def left(self) -> float:
        return self._end - time.monotonic()

    def took(self, seconds: float) -> None:
        self._longest = max(self._longest, seconds)


class Refused(Exception):
    """Something that this benchmark needs is not here."""


def main() -> int:
    given = arguments()
    try:
        document = measured(given)
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 3
    print(table(document))
    return 0 if document["ok"] else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, to see that it runs")
    parser.add_argument("--only", nargs="*", default=[], metavar="PREFIX", help="cases: lora, dora-16 ...")
    parser.add_argument("--minutes", type=float, default=9.0, help="time for all of it (9)")
    parser.add_argument("--alone", action="store_true", help="no other program")
    for program in SEPARATE:
        parser.add_argument(
            f"--{program.key}", metavar="PYTHON", help=f"the Python of an environment with {program.label}"
        )
    parser.add_argument("--no-equality", action="store_true", help="leave the checks of equality out")
    parser.add_argument(
        "--cli", type=Path, default=os.environ.get("EXPERT_CLI"), help="the expert-cli to plan with"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write everything as JSON, and as a picture beside it"
    )
    return parser.parse_args()


def measured(given: argparse.Namespace) -> dict[str, Any]:
    budget = Budget(given.minutes)
    shape = TINY if given.tiny else QWEN_06B
    every = [kind(given.tiny, given.device) for kind in (cases, fused_cases)]
    chosen, together = (
        [it for it in kind if not given.only or it.name.startswith(tuple(given.only))] for kind in every
    )
    if not chosen and not together:
        names = [it.name for kind in every for it in kind]
        raise Refused(f"--only names no case; there are {', '.join(names)}")
    cli = find_cli(given.cli)
    others = find_others(given)
    if given.output:
        if given.output.suffix == ".svg":
            raise Refused("--output names the JSON; the picture is written beside it, as .svg")
        given.output.parent.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "shape": asdict(shape),
        "versions": dict.fromkeys(PACKAGES, "absent") | versions(PACKAGES),
        "not_installed": [] if given.alone else [it.key for it in OTHERS if it not in others],
    }
    with tempfile.TemporaryDirectory(prefix="expert-gpu-") as place:
        folder = Path(place)
        python("base.py", str(folder / "base"), json.dumps(asdict(shape)))
        document |= {
            "device": given.device,
            "peak_operations": None,
            "equality": [],
            "cases": [],
            "fused": [],
        }
        if not given.no_equality:
            document |= checked(given.device, EQUALITY_SHARE * budget.left)
        if given.device == "cuda" and not given.tiny:
            document["proof"] = proved(cli, budget.left)
        document["invalid"] = invalid(given, document)
        if document["invalid"] and given.output and given.output.resolve().parent == RESULTS:
            raise Refused(f"{given.output} is not written: {document['invalid']}")
        peak = document["peak_operations"]
        for case in chosen:
            document["cases"].append(case_of(case, shape, folder, cli, given.device, others, budget, peak))
            save(document, given.output)
        for case in together:
            document["fused"].append(fused_of(case, folder, cli, given.device, budget))
            save(document, given.output)
    equal = all(row["ok"] for row in document["equality"]) and not document.get("equality_failed")
    right = document.get("multiplies", True)
    there = [*("ours" in it for it in document["cases"]), *("gains" in it for it in document["fused"])]
    ok = equal and right and all(there)
    return save({"ok": ok, **document}, given.output)


def save(document: dict[str, Any], path: Path | None) -> dict[str, Any]:
    """After each case, so that a run which is ended leaves the cases that were measured."""
    if path:
        path.write_text(json.dumps(document, indent=2) + "\n")
        path.with_suffix(".svg").write_text(picture(document), encoding="utf-8")
    return document


def checked(device: str, limit: float) -> dict[str, Any]:
    """The checks of equality that were done within the time, and the constants of the card."""
    try:
        found = python("equality.py", device, limit=limit, partial=True)
    except Refused as refused:
        return {"equality_failed": str(refused)}
    found["equality"] = found.pop("checks")
    if ended_by := found.pop("ended_by", None):
        found["equality_failed"] = ended_by
    return found


def proved(cli: Path, limit: float) -> dict[str, Any]:
    """What `doctor --prove` found out, which the plans of the cases then go by."""
    command = [str(cli), "doctor", "--prove", "--json", "--python", sys.executable]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"it was not done within {limit:.0f} s"}
    found: dict[str, Any] = json.loads(done.stdout or "{}").get("kernels") or {}
    return found or {"failed": _last_line(done.stderr)}


def invalid(given: argparse.Namespace, document: dict[str, Any]) -> str | None:
    """Why the figures must not be used."""
    if given.tiny:
        return "tiny shapes measure nothing"
    if "multiplies" not in document:
        return "the products of this device were not checked"
    return None if document["multiplies"] else "the products of this device are wrong"


def case_of(
    case: Case,
    shape: Shape,
    folder: Path,
    cli: Path,
    device: str,
    others: Mapping[Program, str],
    budget: Budget,
    peak: float | None,
) -> dict[str, Any]:
    told: dict[str, Any] = {"name": case.name, "case": case.as_json()}
    if not budget.allows():
        return {**told, "left_out": f"{budget.left:.0f} s were left"}
    try:
        plan, estimate = planned(case, folder, cli, device)
    except Refused as refused:
        return {**told, "ours_failed": str(refused)}
    words = json.dumps(case.as_json()), json.dumps(asdict(shape))
    machine = plan_of(plan)["machine"]
    told["plan"] = {
        "estimate_bytes": estimate,
        "micro_batch": machine["micro_batch"],
        "device": machine["device"]["kind"],
    }
    told |= side(OURS, budget, str(plan), *words)
    for program, interpreter in others.items():
        told |= side(
            program, budget, str(folder / "base"), *words, device, interpreter=interpreter, folder=folder
        )
    return {**told, **compared(told, case, shape, peak)}


def fused_of(case: Case, folder: Path, cli: Path, device: str, budget: Budget) -> dict[str, Any]:
    """How many times as fast groups of experts are as the same ones one after another."""
    told: dict[str, Any] = {"name": case.name, "case": case.as_json()}
    if not budget.allows():
        return {**told, "left_out": f"{budget.left:.0f} s were left"}
    began = time.monotonic()
    try:
        plan, _ = planned(case, folder, cli, device)
        rates = python("fused.py", str(plan), json.dumps(case.as_json()), limit=budget.left)
    except Refused as refused:
        return {**told, "failed": str(refused)}
    finally:
        budget.took(time.monotonic() - began)
    gains = {size: rate / rates["1"] for size, rate in rates.items() if size != "1"}
    return {**told, "tokens_per_second": rates, "gains": gains}


def side(
    program: Program,
    budget: Budget,
    *words: str,
    interpreter: str = sys.executable,
    folder: Path | None = None,
) -> dict[str, Any]:
    """A side that fails, for want of memory for instance, is a result too."""
    if not budget.allows():
        return {f"{program.key}_left_out": f"{budget.left:.0f} s were left"}
    began = time.monotonic()
    try:
        found = python(program.script, *words, limit=budget.left, interpreter=interpreter, folder=folder)
        return {program.key: found}
    except Refused as refused:
        return {f"{program.key}_failed": str(refused)}
    finally:
        budget.took(time.monotonic() - began)


def compared(told: dict[str, Any], case: Case, shape: Shape, peak: float | None) -> dict[str, Any]:
    if "ours" not in told:
        return {}
    speed = told["ours"]["tokens_per_second"]
    operations = shape.operations_a_token(case.mean_document)
    found: dict[str, Any] = {"share_of_h200_floor": speed * operations / H200_OPERATIONS}
    if peak:
        found["share_of_measured_peak"] = speed * operations / peak
    estimate = told["plan"]["estimate_bytes"]
    # Of a CPU the peak is the whole process's, which `tests/worker/budget` takes apart.
    on_card = told["plan"]["device"] == "cuda" and estimate
    found["peak_of_estimate"] = told["ours"]["peak_bytes"] / estimate if on_card else None
    for key in (it.key for it in OTHERS if it.key in told):
        found[f"speed_of_{key}"] = speed / told[key]["tokens_per_second"]
        found[f"memory_of_{key}"] = told["ours"]["peak_bytes"] / told[key]["peak_bytes"]
    return found


def planned(case: Case, folder: Path, cli: Path, device: str) -> tuple[Path, int]:
    """expert-cli's own plan, so that its estimate is held against what is measured."""
    expert = folder / case.name
    expert.mkdir()
    (expert / "train.jsonl").write_text('{"text": "a"}\n')
    manifest = {
        "name": case.name,
        "base_models": [{"name": str(folder / "base"), "quantization": case.quantization}],
        "training": {"dataset": {"path": "train.jsonl"}, "config": config_of(case)},
    }
    (expert / "manifest.json").write_text(json.dumps(manifest))
    command = [str(cli), "plan", "--json", "--device", device, "--python", sys.executable, "-m", str(expert)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"{cli} plans nothing: {_last_line(done.stderr or done.stdout)}")
    plan = json.loads(done.stdout)["plan"]
    plan["request"] = {"stage": "bench", "limit_seconds": 600.0}
    plan["machine"]["logging"]["trackers"] = []
    plan["recipe"]["saving"]["strategy"] = "no"
    path = expert / "plan.json"
    path.write_text(json.dumps(plan))
    estimate = plan["machine"]["estimate"]
    # The peak is the allocator's, which has no part in the context.
    return path, int(estimate["total"] - estimate["context"] - estimate["process"])


def config_of(case: Case) -> dict[str, Any]:
    return {
        "adapter_type": case.adapter,
        "rank": case.rank,
        "alpha": 2 * case.rank,
        "dropout": case.dropout,
        "target_modules": "all-linear",
        "batch_size": case.rows,
        "max_seq_length": case.length,
        "packing": True,
        "max_steps": case.steps,
        "learning_rate": 1e-4,
        "lr_scheduler": "constant",
        "bf16": case.dtype == "bf16",
        "fp16": False,
    }


def plan_of(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def python(
    script: str,
    *words: str,
    limit: float | None = None,
    partial: bool = False,
    interpreter: str = sys.executable,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Runs a script of this folder in a separate process; its last line is its JSON. With `partial` so it is
    where the script fails or is ended for want of time. Programs leave files of theirs in `folder`."""
    paths = [*PATHS, str(HERE.parent / "train")]
    if interpreter == sys.executable:
        paths.append(os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(
            [interpreter, str(HERE / script), *words],
            capture_output=True, text=True, check=False, env=environment, timeout=limit, cwd=folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired as ended:
        if partial and (early := _json_of(ended.stdout)):
            return early | {"ended_by": f"not all was done within {limit:.0f} s"}
        raise Refused(f"{script} was not done within {limit:.0f} s") from None
    if done.returncode:
        if partial and (early := _json_of(done.stdout)):
            return early | {"ended_by": _last_line(done.stderr)}
        raise Refused(f"{script} ended with {done.returncode}: {_last_line(done.stderr)}")
    return _json_of(done.stdout)


def _json_of(said: str | bytes | None) -> dict[str, Any]:
    """The last whole line."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said or ""
    lines = [line for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
    document: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return document


def _last_line(said: str) -> str:
    return next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")


def find_others(given: argparse.Namespace) -> dict[Program, str]:
    """The Python of each program that is installed."""
    found: dict[Program, str] = {}
    for program in () if given.alone else OTHERS:
        named = getattr(given, program.key, None)
        interpreter = program.python(named)
        if named and (why := program.refused_by(named)):
            raise Refused(f"--{program.key}: {why}")
        if interpreter:
            found[program] = interpreter
    return found


def find_cli(named: Path | str | None) -> Path:
    found = Path(named) if named else BUILT
    if not found.is_file():
        raise Refused(f"there is no expert-cli at {found}: build it, or name it with --cli or EXPERT_CLI")
    return found.resolve()


if __name__ == "__main__":
    sys.exit(main())
