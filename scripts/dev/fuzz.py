"""`make fuzz`: builds the fuzz targets with coverage on stable Rust and runs them, one after the other.

New inputs of interest are kept in `target/fuzz/corpus`; an input that breaks a promise is written to
`target/fuzz/found`, with the command that replays it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "corpus"
WORK = ROOT / "target" / "fuzz"
RUST = ("manifest", "rows", "template", "tokenizer", "arrow")
PYTHON = ("events", "encoder")
# Of the compiler's flags that cargo-fuzz sets these need no nightly toolchain. The sanitizers would.
COVERAGE = (
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
)
# Where more inputs to start from are kept.
SEEDS = {
    "manifest": ("tests/manifests/valid", "tests/manifests/invalid"),
    "template": ("tests/worker/pretokenize/templates", "worker/native/src/template/texts"),
}
MEMORY_MIB = 2048
SECONDS_PER_INPUT = 20
LONGEST_INPUT = 16384


def host() -> str:
    lines = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout.splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def build(target: str) -> Path:
    """Named by its host, the build is instrumented and build scripts are not."""
    environment = {**os.environ, "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(COVERAGE)}
    command = ["cargo", "build", "--quiet", "--locked", "--profile", "fuzz", "--target", host()]
    command += [
        "--target-dir",
        str(WORK / "build"),
        "-p",
        "expert-fuzz",
        "--features",
        "libfuzzer",
        "--bin",
        target,
    ]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    return WORK / "build" / host() / "fuzz" / target


def rust(target: str, seconds: int) -> int:
    program = build(target)
    corpus, found = WORK / "corpus" / target, WORK / "found" / target
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    words = CORPUS / f"{target}.dict"
    options = [f"-max_total_time={seconds}", f"-timeout={SECONDS_PER_INPUT}", f"-rss_limit_mb={MEMORY_MIB}"]
    options += [f"-max_len={LONGEST_INPUT}", f"-artifact_prefix={found}/", "-print_final_stats=1"]
    options += [f"-dict={words}"] if words.is_file() else []
    ended = subprocess.run(
        [program, *options, corpus, CORPUS / target, *SEEDS.get(target, ())], check=False, cwd=ROOT
    )
    if ended.returncode:
        print(
            f"\n{target}: replay with {program.relative_to(ROOT)} target/fuzz/found/{target}/FILE",
            file=sys.stderr,
        )
        print(
            f"once it is fixed, copy the file to tests/corpus/{target} under a name that says what broke",
            file=sys.stderr,
        )
    return ended.returncode


def python(target: str, seconds: int) -> int:
    command = [sys.executable, "-m", "tests.fuzz", target, "--seconds", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["worker/python", "tests/worker"])}
    return subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "target", nargs="*", help=f"of {', '.join((*RUST, *PYTHON))}; all of them without a name"
    )
    parser.add_argument("--seconds", type=int, default=60, help="how long each target runs (default: 60)")
    chosen = parser.parse_args()
    targets = chosen.target or [*RUST, *PYTHON]
    unknown = [target for target in targets if target not in (*RUST, *PYTHON)]
    if unknown:
        parser.error(f"no target named {', '.join(unknown)}: {', '.join((*RUST, *PYTHON))}")
    failed = []
    for target in targets:
        print(f"--- {target}, {chosen.seconds} s", file=sys.stderr)
        if (rust if target in RUST else python)(target, chosen.seconds):
            failed.append(target)
    if failed:
        print(f"broken: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
