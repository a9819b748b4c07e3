"""Rows to measure with: prose and code of the Python standard library, which every machine has, as dialogues.

python benches/prep/corpus.py rows.jsonl --megabytes 20
"""

import argparse
import json
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path


def pieces(seed: int) -> Iterator[str]:
    """Stretches of source files of 100 to 2,500 characters, most of them short."""
    draw = random.Random(seed)
    library = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path for path in library.rglob("*.py") if "site-packages" not in path.parts)
    draw.shuffle(files)
    for path in files:
        text = path.read_text(encoding="utf-8", errors="ignore")
        at = 0
        while at < len(text):
            length = min(2500, int(draw.lognormvariate(6, 0.8)) + 100)
            piece = text[at : at + length].strip()
            at += length
            if len(piece) >= 40:
                yield piece


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def rows(target: int, seed: int = 0) -> Iterator[str]:
    """JSON lines of `prompt` and `completion` messages, until they hold `target` bytes."""
    written = 0
    while written < target:
        source = pieces(seed)
        seed += 1
        for prompt, completion in zip(source, source, strict=False):
            row = {"prompt": [_message("user", prompt)], "completion": [_message("assistant", completion)]}
            line = json.dumps(row, ensure_ascii=False) + "\n"
            written += len(line.encode())
            yield line
            if written >= target:
                return


def write(path: Path, megabytes: float) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.writelines(rows(int(megabytes * 1e6)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--megabytes", type=float, default=20)
    given = parser.parse_args()
    write(given.path, given.megabytes)


if __name__ == "__main__":
    main()
