"""Faults in Rust code, as cargo-mutants lists them, all compiled into one build; a variable chooses one.

cargo-mutants itself builds once for every fault. Here a function that has faults becomes a `match` over the
number in EXPERT_FAULT, with one arm for each fault and one for the code as it is. What no compiler takes is
left out and the rest built again. Only faults outside functions need a build each.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from areas import Rust
from record import ROOT, Found

COPY = ROOT / "target" / "mutants"
_LONGEST = 300.0
# At the end of each file that has faults.
_CHOOSES = """
#[allow(dead_code)]
fn __fault() -> usize {
    static CHOSEN: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("EXPERT_FAULT").ok().and_then(|it| it.parse().ok()).unwrap_or(0))
}
"""


@dataclass(frozen=True)
class Fault:
    number: int
    file: str
    name: str
    span: tuple[int, int]
    function: tuple[int, int] | None
    replacement: str


class Sources:
    """A copy of the repository's files, which faults are written into."""

    def __init__(self, folder: Path, target: Path) -> None:
        self.folder, self.target = folder, target
        shutil.rmtree(folder, ignore_errors=True)
        listed = _said("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def build(self, guarded: Rust) -> tuple[list[Path], list[tuple[str, int]]]:
        """The programs of tests, or the places of errors."""
        done = subprocess.run(
            [
                *("cargo", "test", "--no-run", "--quiet", "--locked", "--message-format", "json"),
                *("--package", guarded.crate, *guarded.tests),
            ],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode == 0:
            made = [one for one in messages if one["reason"] == "compiler-artifact" and one["executable"]]
            return [Path(one["executable"]) for one in made if one["profile"]["test"]], []
        diagnostics = [one["message"] for one in messages if one["reason"] == "compiler-message"]
        errors = [one for one in diagnostics if one["level"] == "error"]
        places = {place for one in errors for place in _places(one["spans"])}
        if not places:
            raise SystemExit(f"{guarded.crate} does not build: {done.stderr[-2000:]}")
        return [], sorted(places)

    @cached_property
    def environment(self) -> dict[str, str]:
        python = str(ROOT / ".venv" / "bin" / "python")
        return {**os.environ, "EXPERT_PYTHON": python, "CARGO_TARGET_DIR": str(self.target)}

    def passed(self, guarded: Rust, programs: list[Path], fault: int, seconds: float) -> tuple[str, float]:
        """How the tests end with that fault, and their CPU seconds."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ending = "passed"
        for program in programs:
            ending = self._end_of(guarded, program, fault, seconds)
            if ending != "passed":
                break
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ending, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def _end_of(self, guarded: Rust, program: Path, fault: int, seconds: float) -> str:
        process = subprocess.Popen(
            [str(program), "-q"],
            cwd=self.folder / guarded.folder,
            env={**self.environment, "EXPERT_FAULT": str(fault)},
            stdin=subprocess.DEVNULL,
            stdout=None if os.environ.get("EXPERT_MUTATION_SHOW") else subprocess.DEVNULL,
            stderr=None if os.environ.get("EXPERT_MUTATION_SHOW") else subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: _limit(seconds),  # noqa: PLW1509
        )
        try:
            code = process.wait(_LONGEST)
        except subprocess.TimeoutExpired:
            code = -1
        if code == -1 or code == -24:
            os.killpg(process.pid, 9) if process.poll() is None else None
            process.wait()
            return "undecided" if code == -1 else "out of time"
        return "passed" if code == 0 else "failed"


def examine(area: str, guarded: Rust, sample: int | None, seed: int) -> Found:
    sources = Sources(COPY / "source", Path(os.environ.get("EXPERT_MUTATION_TARGET", COPY / "target")))
    possible = _listed(guarded)
    chosen = random.Random(f"{seed} {area}").sample(possible, min(sample or len(possible), len(possible)))
    found = Found(area, len(possible), list(guarded.tests))
    inside = [fault for fault in chosen if fault.function]
    programs, viable = _built(sources, guarded, inside)
    found.unviable += len(inside) - len(viable)
    ending, cpu_seconds = sources.passed(guarded, programs, 0, 600)
    if ending != "passed":
        raise SystemExit(f"{area}: its tests do not pass as they are; EXPERT_MUTATION_SHOW=1 shows why")
    for fault in viable:
        ending, _ = sources.passed(guarded, programs, fault.number, 10 + 5 * cpu_seconds)
        _note(found, ending, fault)
    for fault in chosen:
        if fault.function is None:
            _restore(sources, chosen)
            path = sources.folder / fault.file
            path.write_text(_changed(path.read_text(), fault))
            programs, errors = sources.build(guarded)
            if errors:
                found.unviable += 1
            else:
                _note(found, sources.passed(guarded, programs, 0, 10 + 5 * cpu_seconds)[0], fault)
    return found


def _note(found: Found, ending: str, fault: Fault) -> None:
    print(f"{ending:12} {fault.name}"[:160], file=sys.stderr, flush=True)
    if ending == "passed":
        found.survivors.append(fault.name)
    elif ending == "undecided":
        found.undecided.append(fault.name)
    elif ending == "out of time":
        found.out_of_time += 1
    else:
        found.killed += 1


def _built(sources: Sources, guarded: Rust, chosen: list[Fault]) -> tuple[list[Path], list[Fault]]:
    """Programs with every fault that compiles."""
    viable = chosen
    while True:
        _restore(sources, chosen)
        arms = {}
        for file, faults in _by_file(viable).items():
            path = sources.folder / file
            text, arms[file] = instrumented(path.read_text(), faults)
            path.write_text(text)
        programs, errors = sources.build(guarded)
        if programs:
            return programs, viable
        wrong = {number for file, line in errors for number in _at(arms.get(file, []), line)}
        if not wrong:
            raise SystemExit(f"{guarded.crate} does not build: {errors[:5]}")
        print(f"{len(wrong)} faults do not compile", file=sys.stderr, flush=True)
        viable = [fault for fault in viable if fault.number not in wrong]


# The lines of an arm, or of a whole function, and the faults that an error there takes away.
Arms = list[tuple[int, int, list[int]]]


def _at(arms: Arms, line: int) -> list[int]:
    """Those of the smallest part that holds the line."""
    parts = [(last - first, numbers) for first, last, numbers in arms if first <= line <= last]
    return min(parts, default=(0, []))[1]


def instrumented(text: str, faults: list[Fault]) -> tuple[str, Arms]:
    functions: dict[tuple[int, int], list[Fault]] = defaultdict(list)
    for fault in faults:
        assert fault.function
        functions[_outermost(fault.function, faults)].append(fault)
    out, at, arms = "", 0, []
    for (start, end), inside in sorted(functions.items()):
        opening = body_of(text, start)
        out += text[at:opening] + "{\n"
        begins = out.count("\n")
        numbers = [fault.number for fault in inside]
        taken = " | ".join(map(str, numbers))
        out += f"match __fault() {{\nnumber if !matches!(number, {taken}) => {text[opening:end]}\n"
        for fault in inside:
            first = out.count("\n") + 1
            left, right = fault.span
            out += f"{fault.number} => {text[opening:left]}{fault.replacement}{text[right:end]}\n"
            arms.append((first, out.count("\n"), [fault.number]))
        out += "_ => unreachable!(),\n}\n}"
        arms.append((begins, out.count("\n") + 1, numbers))
        at = end
    return out + text[at:] + _CHOOSES, arms


def _outermost(function: tuple[int, int], faults: list[Fault]) -> tuple[int, int]:
    around = [one.function for one in faults if one.function and one.function[0] <= function[0]]
    return max((one for one in around if one[1] >= function[1]), key=lambda one: one[1] - one[0])


_SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|r(#*)\".*?\"\1|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", re.DOTALL)


def body_of(text: str, start: int) -> int:
    """Where the body of the function that begins at `start` opens."""
    depth, at = 0, text.index("fn ", start)
    while True:
        if skipped := _SKIPPED.match(text, at):
            at = skipped.end()
            continue
        if text[at] == "{" and depth == 0:
            return at
        depth += (text[at] in "([") - (text[at] in ")]")
        at += 1


def _changed(text: str, fault: Fault) -> str:
    left, right = fault.span
    return text[:left] + fault.replacement + text[right:]


def _restore(sources: Sources, faults: Iterable[Fault]) -> None:
    for file in {fault.file for fault in faults}:
        shutil.copyfile(ROOT / file, sources.folder / file)


def _by_file(faults: list[Fault]) -> dict[str, list[Fault]]:
    files: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        files[fault.file].append(fault)
    return files


def _listed(guarded: Rust) -> list[Fault]:
    command = ["cargo", "mutants", "--package", guarded.crate, "--list", "--json"]
    command += [part for file in guarded.files for part in ("--file", file)]
    texts: dict[str, str] = {}
    seen: dict[str, int] = {}
    found = []
    for number, one in enumerate(json.loads(_said(*command, cwd=ROOT)), 1):
        text = texts.setdefault(one["file"], (ROOT / one["file"]).read_text())
        function = one["function"] and _offsets(text, one["function"]["span"])
        # Lines move; the rest of the name stays.
        name = re.sub(r":\d+:\d+:", ":", one["name"])
        seen[name] = nth = seen.get(name, -1) + 1
        name += f" (#{nth})" if nth else ""
        span = _offsets(text, one["span"])
        found.append(Fault(number, one["file"], name, span, function, one["replacement"]))
    return found


def _offsets(text: str, span: dict[str, Any]) -> tuple[int, int]:
    lines = text.splitlines(keepends=True)
    first, last = (
        sum(map(len, lines[: place["line"] - 1])) + place["column"] - 1
        for place in (span["start"], span["end"])
    )
    return first, last


def _places(spans: list[dict[str, Any]]) -> list[tuple[str, int]]:
    found = [(span["file_name"], span["line_start"]) for span in spans if span["is_primary"]]
    for span in spans:
        if span["expansion"]:
            found += _places([span["expansion"]["span"]])
    return found


def _limit(seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))


def _said(*command: str, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout
