"""Every benchmark in turn: `python -m benches [NAME ...]`, where a name is a folder here or `validate`.

Each prints its own line; what they print as JSON is kept in `benches/out/<name>.json`.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = {
    "validate": HERE / "validate.py",
    **{path.parent.name: path for path in sorted(HERE.glob("*/run.py"))},
}


def run(name: str) -> bool:
    print(f"== {name}", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, str(SCRIPTS[name])], stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.stdout, end="")
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / f"{name}.json").write_text(done.stdout)
    return done.returncode == 0


def main() -> int:
    names = sys.argv[1:] or list(SCRIPTS)
    unknown = [name for name in names if name not in SCRIPTS]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(SCRIPTS)}", file=sys.stderr)
        return 2
    failed = [name for name in names if not run(name)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
