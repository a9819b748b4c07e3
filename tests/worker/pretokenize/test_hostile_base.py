"""A base from a stranger: its template and tokenizer are refused in words, whatever they compute."""

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pretokenize.bases import CHATML, llama3_like, write_base
from pretokenize.test_template import recipe
from pretokenize.workshop import Workshop
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel

from expert_worker.errors import BadInput
from expert_worker.pretokenize import exactness, sources, watch

MESSAGES = json.dumps([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}])
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
REFUSED = {
    LOOP: "10 million steps",
    "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}": "recursion|steps|deep",
    "{{ '{:>1000000000}'.format('x') }}": "1000 columns",
    "{{ '{:.1000000000}'.format(1.5) }}": "1000 columns",
    "{{ '%1000000000s' | format('x') }}": "1000 columns",
    "{{ '%*s' | format(1000000000, 'x') }}": "1000 columns",
    "{{ 'a\\nb' | indent(1000000000) }}": "1000 columns",
    "{{ 'a\\nb' | indent(width=1000000000) }}": "1000 columns",
    "{{ messages | tojson(indent=1000000000) }}": "1000 columns",
    "{{ ('x' * 90000) | replace('x', 'y' * 90000) }}": "64 MiB",
    "{{ ('x' * 90000).replace('x', 'y' * 90000) }}": "64 MiB",
    "{{ ('x' * 90000).replace('', 'y' * 90000) }}": "64 MiB",
    "{{ range(90000) | join('y' * 90000) }}": "64 MiB",
    "{{ ('y' * 90000).join(range(90000)) }}": "64 MiB",
    "{{ 'x' * 1000000000 }}": "too large",
    "{% for a in range(9999) %}{{ 'x' * 90000 }}{% endfor %}": "64 MiB",
    "{{ range(1000000000) | list }}": "too many",
}


@pytest.mark.parametrize("template", REFUSED)
def test_a_template_without_bounds_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=REFUSED[template]):
        recipe(template).render(MESSAGES, False)


def test_what_templates_do_with_widths_is_as_before() -> None:
    template = "{{ 'a\\nb' | indent(2) }}|{{ '%5s' | format('x') }}|{{ 'axa' | replace('x', 'yy') }}"
    template += "|{{ [1, 2] | join('-') }}"
    template += "|{{ ','.join(['a', 'b']) }}|{{ 'aa'.replace('a', 'b', 1) }}|{{ '{:>3}'.format('x') }}"
    assert recipe(template).render(MESSAGES, False)[0] == "a\n  b|    x|ayya|1-2|a,b|ba|  x"


def test_a_template_without_an_end_fails_the_build_at_its_first_row(workshop: Workshop) -> None:
    source = CHATML + "{% if messages | length > 5 %}" + LOOP + "{% endif %}"
    template = {"recipe.template": {"kind": "custom", "source": source}}
    messages = [{"role": role, "content": "x"} for role in ("user", "assistant") * 3]
    with pytest.raises(BadInput, match="10 million steps") as refused:
        workshop.build(workshop.jsonl([{"messages": messages}] * 2000), template)
    assert refused.value.code == "template-endless"


DAMAGED: dict[str, Any] = {
    "empty": b"",
    "cut": None,
    "not JSON": b"tokenizer",
    "a list": b"[]",
    "an unknown model": b'{"model": {"type": "Other"}}',
    "no UTF-8": b"\xff\xfe",
    "deep": b'{"added_tokens": ' + b"[" * 100_000,
    "an added token without an id": b'{"added_tokens": [{"content": "x"}], "model": {"type": "BPE"}}',
    "an added token with a text for an id": b'{"added_tokens": [{"content": "x", "id": "7"}], "model": {}}',
    "a negative id": b'{"added_tokens": [{"content": "x", "id": -7}], "model": {}}',
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_tokenizer_is_refused_in_words(workshop: Workshop, tmp_path: Path, name: str) -> None:
    workshop.base = write_base(tmp_path / "base", llama3_like())
    path = workshop.base / "tokenizer.json"
    path.write_bytes(path.read_bytes()[:5000] if DAMAGED[name] is None else DAMAGED[name])
    with pytest.raises(BadInput, match="tokenizer") as refused:
        workshop.build(workshop.jsonl([{"prompt": "Q", "completion": "A"}]))
    assert refused.value.code == "tokenizer-damaged" and refused.value.hint


@pytest.mark.parametrize("ids", [-1, 2**40, True, "2", [[1]], {"a": 1}], ids=str)
def test_an_odd_end_token_in_a_config_is_not_taken(workshop: Workshop, tmp_path: Path, ids: Any) -> None:
    workshop.base = write_base(tmp_path / "base", llama3_like())
    (workshop.base / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))
    assert workshop.build(workshop.jsonl([{"prompt": "Q", "completion": "A"}])).ledger()["used"] == 1


def explosive() -> Tokenizer:
    """Each character becomes a thousand, four times over."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "<|im_start|>": 1, "<|im_end|>": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex("."), "a" * 1000) for _ in range(4)]
    )
    return tokenizer


DOUBLING = (
    "{% set n = namespace(t='x') %}{% for a in range(60) %}{% set n.t = n.t ~ n.t %}{% endfor %}{{ n.t }}"
)
RUN = (
    "import sys\n"
    "import resource\n"
    # Whatever fails here must not take the machine's memory.
    "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
    "from expert_worker.events.sinks import Pipe\n"
    "from expert_worker.events import Events\n"
    "from expert_worker.pretokenize import ensure_cache\n"
    "from expert_worker.pretokenize import watch\n"
    "from expert_worker.plan import parse_plan\n"
    "watch.MOST_GROWTH = 300 << 20\n"
    "events = Events([Pipe.of_stdout()], task='pretokenize')\n"
    "events.stop.install()\n"
    "ensure_cache(parse_plan(sys.stdin.read()), events)\n"
)


def started(workshop: Workshop, changes: dict[str, Any], run: str = RUN) -> "subprocess.Popen[bytes]":
    plan = workshop.plan(workshop.jsonl([{"prompt": "Q", "completion": "A"}]), changes)
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", run],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(root / "worker" / "python"), str(root / "tests" / "worker")]),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(plan.model_dump_json(by_alias=True).encode())
    process.stdin.close()
    process.stdin = None
    return process


def last_words(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    lines = [json.loads(line)["body"] for line in out.splitlines()]
    assert lines and lines[-1]["type"] == "failed", (lines[-3:], err[-2000:])
    failed: dict[str, Any] = lines[-1]
    assert failed["exit"] == process.returncode and b"Traceback" not in err
    return failed


def test_a_tokenizer_that_explodes_ends_in_words(workshop: Workshop, tmp_path: Path) -> None:
    workshop.base = write_base(tmp_path / "base", explosive())
    failed = last_words(started(workshop, {}))
    assert failed["code"] == "runaway-base" and "memory" in failed["message"] and failed["exit"] == 2


def test_a_template_that_doubles_its_text_ends_in_words(workshop: Workshop) -> None:
    source = CHATML + "{% if messages[0].content == 'Q' %}" + DOUBLING + "{% endif %}"
    failed = last_words(started(workshop, {"recipe.template": {"kind": "custom", "source": source}}))
    assert failed["code"] == "runaway-base" and failed["exit"] == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_interrupts_native_code(workshop: Workshop, tmp_path: Path) -> None:
    slow = "{% for a in range(90000) %}{% set x = ('xy' * 4000000).count('yx') %}{% endfor %}"
    source = CHATML + "{% if messages[0].content == 'Q' %}" + slow + "{% endif %}"
    process = started(workshop, {"recipe.template": {"kind": "custom", "source": source}})
    partial = workshop.folder / "cache"
    while not list(partial.glob("*.partial/spill.bin")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    failed = last_words(process)
    assert (failed["code"], failed["exit"]) == ("interrupted", 130)


# With torch loaded much more of the address space is taken from the start.
PROMPT = RUN.replace("ensure_cache(parse_plan(sys.stdin.read()), events)\n", "").replace(
    "4 << 30", "8 << 30"
) + (
    "from expert_worker.imports import quick_imports\n"
    "with quick_imports():\n"
    "    from expert_worker.evaluate.subject import Subject\n"
    "    from transformers import PreTrainedTokenizerFast\n"
    "plan = parse_plan(sys.stdin.read())\n"
    "tokenizer = PreTrainedTokenizerFast.from_pretrained(plan.machine.paths.base)\n"
    "maker = Subject(None, tokenizer, plan.recipe.template.source, False, events=events).maker()\n"
    "maker.prompt({'messages': [{'role': 'user', 'content': 'Q'}]})\n"
)


@pytest.mark.parametrize("explodes", ["template", pytest.param("tokenizer", marks=pytest.mark.full)])
def test_prompts_are_made_within_the_same_limits(workshop: Workshop, tmp_path: Path, explodes: str) -> None:
    source = CHATML
    if explodes == "template":
        source += DOUBLING
    else:
        workshop.base = write_base(tmp_path / "base", explosive())
    template = {"recipe.template": {"kind": "custom", "source": source}}
    failed = last_words(started(workshop, template, PROMPT))
    assert failed["code"] == "runaway-base" and "memory" in failed["message"] and failed["exit"] == 2


def test_memory_is_seen_on_systems_that_do_not_report_it_by_kind() -> None:
    before = watch._held_elsewhere()
    # New pages: an allocator may reuse what it holds.
    with mmap.mmap(-1, 64 << 20) as kept:
        for _ in range(64):
            kept.write(b"x" * (1 << 20))
        assert watch._held_elsewhere() - before >= len(kept) - (8 << 20)


def test_a_check_without_limits_of_the_system_ends_itself(tmp_path: Path) -> None:
    """As on macOS and Windows, where no system call limits memory."""
    code = (
        "import threading\n"
        "from expert_worker.pretokenize import exactness\n"
        "exactness._limit = lambda: None\n"
        "exactness._MOST_BYTES = 100 << 20\n"
        "exactness.confine()\n"
        "kept = [bytearray(1 << 20) for _ in range(1000)]\n"
        "threading.Event().wait(20)\n"
    )
    source = str(Path(__file__).parents[3] / "worker" / "python")
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=40, check=False)
    assert done.returncode == exactness.RUNAWAY


def test_a_message_names_the_data_where_reading_it_is_the_fault() -> None:
    with watch.reading("train.parquet"):
        assert "Reading train.parquet takes" in watch._refusal("The tokenizer of x", "takes").message
        assert watch._refusal("The tokenizer of x", "takes").code == "runaway-data"
    assert watch._refusal("The tokenizer of x", "takes").code == "runaway-base"


def test_data_are_named_while_they_are_read_and_not_while_they_are_used() -> None:
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(2):
            seen.append(list(watch._reading))
            yield pa.record_batch({"prompt": [str(number)]})

    schema = pa.schema([("prompt", pa.string())])
    for _ in sources.sound(pa.RecordBatchReader.from_batches(schema, batches()), "train.parquet"):
        assert watch._reading == []
    assert seen == [["train.parquet"]] * 2
