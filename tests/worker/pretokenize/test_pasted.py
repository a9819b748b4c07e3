"""A small data set of every shape, from its manifest to its tokens: exactly those of the plain rows are
learned, or the data is refused with a line that, pasted into the manifest or a shell, makes it work."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest
from defaults import cli
from pretokenize.workshop import Workshop
from pyarrow import csv, feather, parquet

from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import parse_plan
from expert_worker.pretokenize import ensure_cache

PAIRS = [("Which town?", "Oslo"), ('Wie heißt; du, "x"?', "Jürgen, [sic] {}"), ("And\nthen", "two\nlines")]
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 700,
}  # fmt: skip
Rows = list[dict[str, Any]]


def rows(shape: Callable[[str, str], dict[str, Any]]) -> Rows:
    return [shape(*pair) for pair in PAIRS]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


PLAIN = rows(lambda q, a: {"prompt": q, "completion": a})

SHAPES: dict[str, Rows] = {
    "question-answer": rows(lambda q, a: {"question": q, "answer": a}),
    "query-response": rows(lambda q, a: {"query": q, "response": a}),
    "problem-solution": rows(lambda q, a: {"problem": q, "solution": a}),
    "prompt-response": rows(lambda q, a: {"prompt": q, "response": a}),
    "input-output": rows(lambda q, a: {"input": q, "output": a}),
    "alpaca": rows(lambda q, a: {"instruction": q, "input": "", "output": a}),
    "dolly": rows(lambda q, a: {"instruction": q, "context": "", "response": a, "category": "x"}),
    "messages": rows(lambda q, a: {"messages": [user(q), assistant(a)]}),
    "messages-as-text": rows(lambda q, a: {"messages": json.dumps([user(q), assistant(a)])}),
    "content-parts": rows(
        lambda q, a: {"messages": [user([{"type": "text", "text": q}]), assistant(a)]}  # type: ignore[arg-type]
    ),
    "sharegpt": rows(
        lambda q, a: {"conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": a}]}
    ),
    "trl-dialogues": rows(lambda q, a: {"prompt": [user(q)], "completion": [assistant(a)]}),
    "chatml-text": rows(
        lambda q, a: {"text": f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n{a}<|im_end|>\n"}
    ),
    "alpaca-text": rows(lambda q, a: {"text": f"### Instruction:\n{q}\n\n### Response:\n{a}"}),
    # Refused, and what is pasted names the fields.
    "text-label": rows(lambda q, a: {"text": q, "label": a}),
    "text-output": rows(lambda q, a: {"text": q, "output": a}),
    "prompt-text": rows(lambda q, a: {"prompt": q, "text": a}),
    "document-summary": rows(lambda q, a: {"document": q, "summary": a}),
    "two-answers": rows(lambda q, a: {"prompt": q, "answer": a, "label": "x"}),
    "unknown-names": rows(lambda q, a: {"frage": q, "antwort": a}),
    "nested": rows(lambda q, a: {"data": {"q": q, "gold": a}}),
    "chosen": rows(lambda q, a: {"prompt": q, "chosen": a, "rejected": "no"}),
    "chosen-dialogues": rows(
        lambda q, a: {"chosen": [user(q), assistant(a)], "rejected": [user(q), assistant("no")]}
    ),
    "judged": rows(lambda q, a: {"prompt": q, "completion": a, "label": True}),
    "tools": rows(
        lambda q, a: {"messages": [user(q), assistant(a)], "tools": [{"function": {"name": "f"}}]}
    ),
}  # fmt: skip
REFUSED_SHAPES = {
    "text-label", "text-output", "prompt-text", "document-summary", "two-answers", "unknown-names", "nested",
    "chosen", "chosen-dialogues", "judged", "tools",
}  # fmt: skip


def lines(some: Iterable[Any] = PLAIN) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in some).encode()


def table(delimiter: str) -> bytes:
    out = io.BytesIO()
    csv.write_csv(pa.Table.from_pylist(PLAIN), out, csv.WriteOptions(delimiter=delimiter))
    return out.getvalue()


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.jsonl", content)
    return out.getvalue()


def yaml() -> bytes:
    return "".join(f"- prompt: {json.dumps(q)}\n  completion: {json.dumps(a)}\n" for q, a in PAIRS).encode()


def columns() -> dict[str, list[str]]:
    return {key: [row[key] for row in PLAIN] for key in PLAIN[0]}


def written(name: str, content: bytes) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        return name

    return write


def several(path: str, **files: bytes) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        for name, content in files.items():
            written(f"many/{name.replace('__', '/').replace('_', '.')}", content)(folder)
        return path

    return write


def saved(path: str, kind: Any) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        kind.save_to_disk(str(folder / path))
        return path

    return write


def piped(folder: Path) -> str:
    """Somebody writes into it as soon as somebody reads."""
    os.mkfifo(folder / "d.jsonl")
    threading.Thread(target=lambda: (folder / "d.jsonl").write_bytes(lines()), daemon=True).start()
    return "d.jsonl"


ARROW = pa.Table.from_pylist(PLAIN)
TABLE = datasets.Dataset.from_list(PLAIN)
TEXTS = ["Oslo is a town.", 'Jürgen said: "[sic] {}"', "# Two"]
# What writes the data below the expert's folder and returns its path.
FILES: dict[str, Callable[[Path], str]] = {
    "jsonl": written("d.jsonl", lines()),
    "crlf-and-bom": written("d.jsonl", b"\xef\xbb\xbf" + lines().replace(b"}\n", b"}\r\n")),
    "json-list": written("d.json", json.dumps(PLAIN).encode()),
    "json-list-indented": written("d.json", json.dumps(PLAIN, indent=2).encode()),
    "json-list-named-jsonl": written("d.jsonl", json.dumps(PLAIN).encode()),
    "objects-over-lines": written("d.jsonl", "\n".join(json.dumps(row, indent=2) for row in PLAIN).encode()),
    "json-below-a-key": written("d.json", json.dumps({"version": 1, "data": PLAIN}).encode()),
    "json-by-columns": written("d.json", json.dumps(columns()).encode()),
    "csv": written("d.csv", table(",")),
    "csv-semicolons": written("d.csv", table(";")),
    "tsv": written("d.tsv", table("\t")),
    "parquet": lambda folder: (parquet.write_table(ARROW, folder / "d.parquet"), "d.parquet")[1],
    "arrow": lambda folder: (feather.write_feather(ARROW, str(folder / "d.arrow")), "d.arrow")[1],
    "gz": written("d.jsonl.gz", gzip.compress(lines())),
    "csv-gz": written("d.csv.gz", gzip.compress(table(","))),
    "zst": written("d.jsonl.zst", pa.compress(lines(), codec="zstd", asbytes=True)),
    "zip": written("d.zip", zipped(d=lines())),
    "utf-16": written("d.jsonl", lines().decode().encode("utf-16")),
    "folder": several("many", a_jsonl=lines(PLAIN[:1]), b_jsonl=lines(PLAIN[1:])),
    "folder-of-folders": several(
        "many", x__a_jsonl=lines(PLAIN[:1]), y__b_jsonl_gz=gzip.compress(lines(PLAIN[1:]))
    ),
    "pattern": several("many/*.jsonl", a_jsonl=lines(PLAIN[:2]), b_jsonl=lines(PLAIN[2:]), c_csv=b"x\n1\n"),
    "deep-pattern": several("many/**/*.jsonl", x__a_jsonl=lines(PLAIN[:2]), y__z__b_jsonl=lines(PLAIN[2:])),
    "save-to-disk": saved("set", TABLE),
    # Refused, and what is pasted names the right files or makes them.
    "no-ending": written("d", lines()),
    "folder-with-splits": several("many", train_jsonl=lines(), test_jsonl=lines(PLAIN[:1])),
    "folder-with-formats": several("many", a_csv=table(","), b_jsonl=lines(PLAIN[:1])),
    "saved-splits": saved("set", datasets.DatasetDict(train=TABLE, test=TABLE.select([0]))),
    "zip-of-several": written("d.zip", zipped(a=lines(PLAIN[:1]), b=lines(PLAIN[1:]))),
    "several-lists": written("d.json", json.dumps({"train": PLAIN, "extra": PLAIN[:1]}).encode()),
    "latin-1": written("d.jsonl", lines().decode().encode("latin-1")),
    "bz2": written("d.jsonl.bz2", bz2.compress(lines())),
    "xz": written("d.jsonl.xz", lzma.compress(lines())),
    "yaml": written("d.yaml", yaml()),
    "pipe": piped,
}  # fmt: skip
REFUSED_FILES = {
    "no-ending", "folder-with-splits", "folder-with-formats", "saved-splits", "zip-of-several",
    "several-lists", "latin-1", "bz2", "xz", "yaml", "pipe",
}  # fmt: skip


class Refused(Exception):
    def __init__(self, hint: str) -> None:
        super().__init__(hint)
        self.hint = hint


class Expert:
    """A folder with a manifest, tokenized in this process by what `expert-cli` plans."""

    def __init__(self, folder: Path, workshop: Workshop) -> None:
        self.folder, self.home = folder, workshop.home
        (folder / "base").mkdir(parents=True)
        for file in workshop.base.iterdir():
            (folder / "base" / file.name).write_bytes(file.read_bytes())
        (folder / "base" / "config.json").write_text(json.dumps(CONFIG))
        (folder / "base" / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        self.dataset: dict[str, Any] = {}

    def learned(self) -> list[tuple[list[int], list[int]]]:
        """Ids and labels of each row."""
        config = {"adapter_type": "lora", "rank": 4, "alpha": 8, "packing": False, "max_steps": 1}
        training = {"dataset": self.dataset, "config": config}
        manifest = {"name": "e", "base_models": [{"name": "./base"}], "training": training}
        (self.folder / "manifest.json").write_text(json.dumps(manifest))
        command = [cli(), "plan", "--json", "--device", "cpu", "-m", self.folder]
        environment = {**os.environ, "EXPERT_PYTHON": sys.executable, "EXPERT_HOME": str(self.home)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        document = json.loads(done.stdout)
        if done.returncode != 0:
            errors = [it for it in document["diagnostics"] if it["severity"] == "error"]
            raise Refused(errors[0]["hint"] if errors else document["error"]["hint"])
        try:
            cache = ensure_cache(parse_plan(json.dumps(document["plan"])), Events.in_memory("pretokenize")[0])
        except BadInput as error:
            raise Refused(error.hint or "") from error
        found = (cache.train.row(index) for index in range(len(cache.train)))
        return [(ids.tolist(), [int(label) for label in labels]) for ids, labels, _ in found]

    def paste(self, hint: str) -> None:
        """A setting into training.dataset; else a command into a shell, and what it makes is the data."""
        command = re.search(r"\b(jq|python3|iconv|unzip|bunzip2|unxz|cat) [^`\n]+", hint)
        setting = re.search(r'"(path|format|field_mapping|on_bad_row|text_field)": ', hint)
        assert command or setting, f"nothing to paste in: {hint}"
        before = set(self.folder.iterdir())
        if command:
            if shutil.which(command[1]) is None:
                pytest.skip(f"{command[1]} is not here")
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            line = ["/bin/sh", "-c", command[0]]
            environment = {**os.environ, "PATH": path}
            subprocess.run(
                line, cwd=self.folder, env=environment, check=True, timeout=60, capture_output=True
            )
        if setting:
            self.dataset[setting[1]], _ = json.JSONDecoder().raw_decode(hint[setting.end() :])
        else:
            [made] = set(self.folder.iterdir()) - before
            self.dataset["path"] = made.name


def check(
    workshop: Workshop, folder: Path, write: Callable[[Path], str], plain_rows: Rows = PLAIN, *, refused: bool
) -> None:
    plain = Expert(folder / "plain", workshop)
    plain.dataset["path"] = written("plain.jsonl", lines(plain_rows))(plain.folder)
    expert = Expert(folder / "expert", workshop)
    expert.dataset["path"] = write(expert.folder)
    was_refused = False
    while True:
        try:
            found = expert.learned()
            break
        except Refused as refusal:
            assert not was_refused, f"the pasted line does not make it work: {refusal.hint}"
            was_refused = True
            expert.paste(refusal.hint)
    assert was_refused == refused
    assert found == plain.learned()
    assert all(any(label != -100 for label in labels) for _, labels in found)


@pytest.mark.parametrize("name", SHAPES)
def test_rows_of_every_shape_are_learned_as_the_plain_ones(
    workshop: Workshop, tmp_path: Path, name: str
) -> None:
    check(workshop, tmp_path, written("d.jsonl", lines(SHAPES[name])), refused=name in REFUSED_SHAPES)


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_kind_are_learned_as_the_plain_ones(
    workshop: Workshop, tmp_path: Path, name: str
) -> None:
    check(workshop, tmp_path, FILES[name], refused=name in REFUSED_FILES)


@pytest.mark.parametrize("name", ["d.txt", "d.md"])
def test_lines_of_text_become_rows(workshop: Workshop, tmp_path: Path, name: str) -> None:
    text = written(name, "\n\n".join(TEXTS).encode())
    check(workshop, tmp_path, text, [{"text": line} for line in TEXTS], refused=True)
