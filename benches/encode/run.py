"""Text to ids alone: our encoder and `tokenizers`, and fastokens and splintr where they are installed.

    python benches/encode/run.py [--megabytes 8]
    pip install --target others --no-deps fastokens splintr-rs
    PYTHONPATH=others python benches/encode/run.py

One thread, the ranks of Qwen, the contents of dialogues, each once, as a data set is read: every round begins
with an encoder that has seen nothing, and the best of three counts. Ids become Python lists in all of them.
Prints JSON and a line.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("worker/python", "tests/worker", "benches/prep")]

from pretokenize.bases import qwen  # noqa: E402

from corpus import pieces  # noqa: E402

Encode = Callable[[list[str]], list[list[int]]]
# Makes an encoder of a tokenizer.json.
Make = Callable[[Path], Encode]
REFERENCE = "tokenizers"
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=8)
    texts = corpus(parser.parse_args().megabytes)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        qwen().save(str(path))
        expected = reference(path)(texts)
        figures = {name: figure(make, path, texts, expected, megabytes) for name, make in found()}
    slowest = figures[REFERENCE]["megabytes_per_cpu_second"]
    rows = [
        {
            "what": f"{name}, {figure['mismatches']} texts differ",
            "against": REFERENCE,
            "ratio": rate / slowest,
        }
        for name, figure in figures.items()
        if name != REFERENCE and (rate := figure["megabytes_per_cpu_second"])
    ]
    print(json.dumps({"megabytes": megabytes, "rows": rows, "encoders": figures}, indent=2))
    print("; ".join(f"{row['what']}: {row['ratio']:.1f}x" for row in rows), file=sys.stderr)


def corpus(megabytes: float) -> list[str]:
    texts, size = [], 0.0
    for text in islice(pieces(0), 100_000):
        texts.append(text)
        size += len(text.encode()) / 1e6
        if size >= megabytes:
            break
    return texts


def found() -> Iterator[tuple[str, Make]]:
    yield "ours", ours
    yield REFERENCE, reference
    if find_spec("fastokens"):
        yield "fastokens", fastokens
    if find_spec("splintr"):
        yield "splintr", splintr


def ours(path: Path) -> Encode:
    from expert_worker._native import Tokenizer

    return Tokenizer(Tokenizer.compile(path.read_bytes())).encode


def reference(path: Path) -> Encode:
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(path))
    return lambda texts: [one.ids for one in encoder.encode_batch_fast(texts, add_special_tokens=False)]


def fastokens(path: Path) -> Encode:
    from fastokens import Tokenizer

    encoder = Tokenizer.from_file(str(path))
    return lambda texts: [encoder.encode(text, add_special_tokens=False).ids for text in texts]


def splintr(path: Path) -> Encode:
    from splintr import from_json

    encoder = from_json(str(path))
    return lambda texts: [encoder.encode(text) for text in texts]


def figure(
    make: Make, path: Path, texts: list[str], expected: list[list[int]], megabytes: float
) -> dict[str, float]:
    seconds, mismatches = [], 0
    for _ in range(ROUNDS):
        encode = make(path)
        started = time.process_time()
        ids = encode(texts)
        seconds.append(time.process_time() - started)
        mismatches = sum(left != right for left, right in zip(ids, expected, strict=True))
    return {"megabytes_per_cpu_second": megabytes / min(seconds), "mismatches": mismatches}


if __name__ == "__main__":
    main()
