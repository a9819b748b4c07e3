"""Runs every benchmark and prints one table of the results: `python -m benches [NAME ...]`.

A name is a folder here or `validate`; `benches/gpu` is a separate command. Each benchmark prints one JSON
document, kept in `benches/out/<name>.json`. `--keep` adds them to `benches/results/<date>-cpu.json`, the
source of README's numbers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from history import keep  # noqa: E402
from summary import rows, table  # noqa: E402

SCRIPTS = {
    "validate": HERE / "validate.py",
    **{path.parent.name: path for path in sorted(HERE.glob("*/run.py"))},
}


def main() -> int:
    given = arguments()
    found: dict[str, Any] = {}
    failed = []
    for name in given.names or SCRIPTS:
        print(f"== {name}", file=sys.stderr, flush=True)
        document = run(name)
        if document is None:
            failed.append(name)
        else:
            found[name] = document
    if given.json:
        print(json.dumps({"ok": not failed, "results": found, "failed": failed}))
    else:
        print(table([row for name, document in found.items() for row in rows(name, document)]))
    if given.keep and found:
        print(f"kept in {keep(found, HERE / 'results', time.strftime('%Y-%m-%d'))}", file=sys.stderr)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)} (all)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    parser.add_argument("--keep", action="store_true", help="add the results to benches/results")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in SCRIPTS]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(SCRIPTS)}")
    return given


def run(name: str) -> Any:
    """Its JSON document; the last line alone where it talks before. None where it failed."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS[name])], stdout=subprocess.PIPE, text=True, check=False
    )
    document = parsed(done.stdout)
    if done.returncode or document is None:
        print(done.stdout, end="", file=sys.stderr)
        return None
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    return document


def parsed(text: str) -> Any:
    for part in (text, *reversed(text.splitlines())):
        try:
            return json.loads(part)
        except ValueError:
            continue
    return None


if __name__ == "__main__":
    sys.exit(main())
