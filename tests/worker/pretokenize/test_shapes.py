"""Rows as people have them: each is learned on the right tokens, or refused with a line that, pasted into the
manifest, makes it work."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pretokenize.bases import llama3_like, write_base
from pretokenize.test_data import PLAIN, texts, turn
from pretokenize.workshop import Workshop

from expert_worker._native import RowReader
from expert_worker.errors import BadInput
from expert_worker.pretokenize.preview import rows_as_json

TEMPLATES = Path(__file__).parent / "templates"


def pasted(hint: str) -> dict[str, Any]:
    """The setting that the hint asks to add to training.dataset, as a change of the plan."""
    found = re.search(r"training\.dataset: (?=\")", hint)
    assert found, f"nothing to paste in: {hint}"
    decoder, rest = json.JSONDecoder(), hint[found.end() :]
    key, end = decoder.raw_decode(rest)
    value, _ = decoder.raw_decode(rest[end:].removeprefix(":").lstrip())
    return (
        {"recipe.data.field_mapping": {"text": value}}
        if key == "text_field"
        else {f"recipe.data.{key}": value}
    )


Q, A = [{"role": "user", "content": "Q"}], [{"role": "assistant", "content": "A"}]

UNDERSTOOD: dict[str, tuple[Any, str]] = {
    "question-answer": ({"question": "Q", "answer": "A"}, turn("Q", "A")),
    "query-response": ({"query": "Q", "response": "A", "original_question": "x"}, turn("Q", "A")),
    "problem-solution": ({"problem": "Q", "solution": "A"}, turn("Q", "A")),
    "instruction-answer": ({"instruction": "Q", "answer": "A"}, turn("Q", "A")),
    "prompt-response": ({"prompt": "Q", "response": "A"}, turn("Q", "A")),
    "question-context-answer": ({"question": "Q", "context": "I", "answer": "A"}, turn("Q\n\nI", "A")),
    "prompt-context": ({"prompt": "Q", "context": "I", "completion": "A"}, turn("Q\n\nI", "A")),
    "prompt-input-number": ({"prompt": "Q", "input": 2.5, "completion": "A"}, turn("Q\n\n2.5", "A")),
    "dolly": ({"instruction": "Q", "context": "I", "response": "A", "category": "x"}, turn("Q\n\nI", "A")),
    "system-prompt": ({"system_prompt": "S", "question": "Q", "response": "A"}, turn("Q", "A", "S")),
    "alpaca-with-text": ({"instruction": "Q", "input": "", "output": "A", "text": "all"}, turn("Q", "A")),
    "number": ({"prompt": "Q", "completion": 6}, turn("Q", "6")),
    "fraction": ({"prompt": "Q", "completion": 0.5}, turn("Q", "0.5")),
    "long-integer": ({"prompt": -(2**80), "completion": 10**40 + 7}, turn(str(-(2**80)), str(10**40 + 7))),
    "long-integers-inside": (
        {"prompt": "Q", "completion": {"id \" 9": [2**64, "8 \\\" 7", 1e30, 0.5], "n": -(2**63) - 1}},
        turn("Q", '{"id \\" 9":[18446744073709551616,"8 \\\\\\" 7",1e+30,0.5],"n":-9223372036854775809}'),
    ),
    "boolean": ({"question": "Q", "answer": True}, turn("Q", "true")),
    "number-asked": ({"prompt": 12, "completion": "A"}, turn("12", "A")),
    "label": ({"prompt": "Q", "label": 1}, turn("Q", "1")),
    "label-true": ({"question": "Q", "label": True}, turn("Q", "true")),
    "label-false-in-words": ({"instruction": "Q", "input": "I", "label": "False"}, turn("Q\n\nI", "False")),
    "label-of-fields": ({"input": {"x": "Q"}, "label": False}, turn("Q", "false")),
    "label-that-is-no-verdict": ({"question": "Q", "answer": "A", "label": "A"}, turn("Q", "A")),
    "parts": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": part} for part in "QR"]}, *A]},
        turn("QR", "A"),
    ),
    "sharegpt-system": (
        {"system": "S", "conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]},
        turn("Q", "A", "S"),
    ),
    "messages-as-text": ({"messages": json.dumps([*Q, *A])}, turn("Q", "A")),
    "messages-with-more": ({"messages": [{"role": "user", "content": "Q", "date": "x"}, *A]}, turn("Q", "A")),
    "prompt-and-answer-list": ({"prompt": "Q", "completion": A}, turn("Q", "A")),
    "prompt-list": ({"prompt": Q, "completion": "A"}, turn("Q", "A")),
    "alpaca-text": ({"text": "### Instruction:\nQ\n\n### Response:\nA"}, turn("Q", "A")),
    "guanaco-text": ({"text": "### Human: Q### Assistant: A"}, turn("Q", "A")),
    "without-pictures": (
        {"prompt": "Q", "completion": "A", "images": [], "image": {"bytes": None, "path": ""}, "audio": None},
        turn("Q", "A"),
    ),
    "human-text": ({"text": "\n\nHuman: Q\n\nAssistant: A"}, turn("Q", "A")),
    "text-with-its-end": ({"text": "### Instruction:\nQ\n\n### Response:\nA</s>"}, turn("Q", "A")),
    "text-of-chatml": ({"text": "### Human: Q### Assistant: A<|im_end|><|endoftext|>"}, turn("Q", "A")),
    "heading-in-an-answer": (
        {"text": "### Instruction:\nQ\n\n### Response:\nA\nsee ### Response: above"},
        turn("Q", "A\nsee ### Response: above"),
    ),
    "history-of-other-kind": ({"instruction": "Q", "output": "A", "history": "of Rome"}, turn("Q", "A")),
    "empty-history": ({"instruction": "Q", "output": "A", "history": []}, turn("Q", "A")),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_a_shape_is_understood(workshop: Workshop, name: str) -> None:
    row, expected = UNDERSTOOD[name]
    learned = expected.rsplit("<|im_start|>assistant\n", 1)[1]
    assert texts(workshop, workshop.build(workshop.jsonl([row]), PLAIN)) == [(expected, learned)]


REFUSED: dict[str, tuple[Any, str]] = {
    "text-label": ({"text": "Q", "label": "A"}, turn("Q", "A")),
    "text-output": ({"text": "Q", "output": "A"}, turn("Q", "A")),
    "text-label-number": ({"text": "Q", "label": 3, "id": 1}, turn("Q", "3")),
    "text-label-words": ({"text": "Q", "label": 3, "label_text": "A"}, turn("Q", "A")),
    "text-summary": ({"text": "Q", "summary": "A"}, turn("Q", "A")),
    "prompt-text": ({"prompt": "Q", "text": "A"}, turn("Q", "A")),
    "document-summary": ({"id": "7", "document": "Q", "summary": "A"}, turn("Q", "A")),
    "question-sql": ({"db_id": "d", "question": "Q", "query": "A"}, turn("Q", "A")),
    "unknown-names": ({"frage": "Q", "antwort": "A"}, turn("Q", "A")),
    "nested": ({"data": {"q": "Q", "gold": "A"}}, turn("Q", "A")),
    "one-unknown": ({"body": "A"}, "A<|im_end|>"),
    "two-questions": ({"prompt": "Q", "question": "x", "response": "A"}, turn("Q", "A")),
    "two-answers": ({"prompt": "Q", "answer": "A", "label": "x"}, turn("Q", "A")),
    "chosen": ({"prompt": "Q", "chosen": "A", "rejected": "B"}, turn("Q", "A")),
    "chosen-dialogues": ({"prompt": "Q", "chosen": [*Q, *A], "rejected": [*Q, *Q]}, turn("Q", "A")),
    "chosen-texts": ({"chosen": "\n\nHuman: Q\n\nAssistant: A", "rejected": "B"}, turn("Q", "A")),
    "judged": ({"prompt": "Q", "completion": "A", "label": True}, turn("Q", "A")),
    "judged-text": ({"prompt": "Q", "completion": "A", "label": " False"}, turn("Q", "A")),
    "judged-answer": ({"question": "Q", "answer": "A", "label": False}, turn("Q", "A")),
    "judged-output": (
        {"instruction": "Q", "input": "I", "output": "A", "system": "S", "label": "TRUE"},
        turn("Q\n\nI", "A", "S"),
    ),
    "judged-fields": ({"input": {"x": "Q"}, "output": "A", "label": False}, turn("Q", "A")),
    "judged-dialogue": ({"messages": [*Q, *A], "label": True}, turn("Q", "A")),
    "picture": ({"image": "x.jpg", "system": "S", "conversations": [*Q, *A]}, turn("Q", "A", "S")),
    "pictures": ({"images": ["x.jpg"], "instruction": "Q", "input": "I", "output": "A"}, turn("Q\n\nI", "A")),
    "picture-of-a-message": ({"messages": [{**Q[0], "images": ["x.jpg"]}, *A]}, turn("Q", "A")),
    "sound-of-a-prompt": ({"prompt": [{**Q[0], "audio": "x.wav"}], "completion": A}, turn("Q", "A")),
    "sound": ({"audio": {"bytes": None, "path": "x.wav"}, "text": "A"}, "A<|im_end|>"),
    "tools": ({"messages": [*Q, *A], "tools": [{"function": {"name": "f"}}]}, turn("Q", "A")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_shape_is_refused_with_the_line_that_makes_it_work(workshop: Workshop, name: str) -> None:
    row, expected = REFUSED[name]
    path = workshop.jsonl([row] * 30)
    with pytest.raises(BadInput) as caught:
        workshop.build(path, PLAIN)
    assert caught.value.hint
    lines = caught.value.message.splitlines()
    assert lines[0] == "30 rows are broken:"
    assert len(lines) == 2, "one mistake takes one line"
    assert "(30 rows: 1, 2, 3, " in lines[1]
    cache = workshop.build(path, {**PLAIN, **pasted(caught.value.hint)})
    learned = expected.rsplit("<|im_start|>assistant\n", 1)[-1]
    assert texts(workshop, cache) == [(expected, learned)] * 30


def test_rows_that_the_line_leaves_out(workshop: Workshop) -> None:
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
    }
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    for odd, said in (([*Q, call], "calls tools"), ([picture, *A], 'a part of type "image_url"')):
        path = workshop.jsonl([{"messages": [*Q, *A]}, {"messages": odd}])
        with pytest.raises(BadInput, match=said) as caught:
            workshop.build(path, PLAIN)
        cache = workshop.build(path, {**PLAIN, **pasted(caught.value.hint or "")})
        assert texts(workshop, cache) == [(turn("Q", "A"), "A<|im_end|>\n")]
        assert cache.ledger()["bad"] == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"prompt": None, "completion": "A"},
        {"question": None, "answer": "A", "topic": "x"},
        {"messages": None, "title": "x"},
    ],
)
def test_a_row_whose_question_is_null_is_left_out_alone(workshop: Workshop, odd: dict[str, Any]) -> None:
    rows = [{"messages": [*Q, *A]} if "messages" in odd else {**odd, next(iter(odd)): "Q"}, odd]
    path = workshop.jsonl(rows)
    with pytest.raises(BadInput, match=f'train.jsonl:2: the field "{next(iter(odd))}" is null') as caught:
        workshop.build(path, PLAIN)
    cache = workshop.build(path, {**PLAIN, **pasted(caught.value.hint or "")})
    assert texts(workshop, cache) == [(turn("Q", "A"), "A<|im_end|>\n")]


def test_a_question_alone_is_not_proposed_as_the_whole_text(workshop: Workshop) -> None:
    path = workshop.jsonl([{"prompt": "Q", "completion": "A"}, {"prompt": "Q", "id": 7}])
    with pytest.raises(BadInput, match='the row has "prompt" and no "completion"') as caught:
        workshop.build(path, PLAIN)
    assert "text_field" not in (caught.value.hint or "")


NO = {"role": "assistant", "content": "no", "weight": 0}
EACH = {**PLAIN, "recipe.data.train_on": "assistant"}


@pytest.mark.parametrize(
    "flag",
    [
        {"weight": 0},
        {"weight": 0.0},
        {"weight": "0"},
        {"weight": False},
        {"weight": "0.0"},
        {"train": "false"},
        {"loss": "False"},
        {"train": False},
        {"loss": False},
        {"loss": 0},
        {"weight": 0, "role": "bot"},
        {"weight": 1, "train": False},
    ],
)
def test_an_answer_that_is_not_to_be_learned_is_not(workshop: Workshop, flag: dict[str, Any]) -> None:
    no = {"role": "assistant", "content": "no", **flag}
    rows = [{"messages": [*Q, no, *Q, {**A[0], "weight": 1}]}, {"messages": [*Q, *A, *Q, *A]}]
    cache = workshop.build(workshop.jsonl(rows), EACH)
    assert texts(workshop, cache) == [
        (turn("Q", "no") + turn("Q", "A"), "A<|im_end|>\n"),
        (turn("Q", "A") + turn("Q", "A"), "A<|im_end|>\nA<|im_end|>\n"),
    ]
    assert not cache.description.sources[0].unused_fields


def test_what_follows_the_last_answer_that_is_learned_is_left_out(workshop: Workshop) -> None:
    path = workshop.jsonl([{"messages": [*Q, *A, *Q, NO]}, {"messages": [*Q, *A]}])
    for changes in (PLAIN, EACH):
        cache = workshop.build(path, changes)
        assert texts(workshop, cache) == 2 * [(turn("Q", "A"), "A<|im_end|>\n")]
        assert cache.ledger()["unanswered"] == 0, "the row asks for it"
    cache = workshop.build(workshop.jsonl([{"messages": [*Q, *A, *Q, NO, *Q]}], "asks.jsonl"), EACH)
    assert cache.ledger()["unanswered"] == 1


def test_rows_of_which_no_answer_is_to_be_learned_are_refused(workshop: Workshop) -> None:
    path = workshop.jsonl([{"messages": [*Q, NO]}, {"messages": [*Q, *A]}])
    for changes in (PLAIN, EACH):
        with pytest.raises(BadInput, match=r"train.jsonl:1: no answer of the row is to be learned") as caught:
            workshop.build(path, changes)
        cache = workshop.build(path, {**changes, **pasted(caught.value.hint or "")})
        assert texts(workshop, cache) == [(turn("Q", "A"), "A<|im_end|>\n")]
        assert cache.ledger()["bad"] == 1


def test_where_every_token_is_learned_no_answer_can_be_left_out(workshop: Workshop) -> None:
    path = workshop.jsonl([{"messages": [*Q, NO, *Q, *A]}])
    with pytest.raises(BadInput, match=r'message 2 has "weight" 0 or false.*learns every token') as caught:
        workshop.build(path, {**PLAIN, "recipe.data.train_on": "all"})
    cache = workshop.build(path, {**PLAIN, **pasted(caught.value.hint or "")})
    assert texts(workshop, cache) == [(turn("Q", "no") + turn("Q", "A"), "A<|im_end|>\n")]


def warned(workshop: Workshop) -> list[str]:
    said = [line for line in workshop.said if getattr(line, "code", None) == "answers-not-learned"]
    return [line.message for line in said]


@pytest.mark.parametrize("changes", [EACH, PLAIN], ids=["assistant", "completions"])
@pytest.mark.parametrize(
    "rows",
    [
        [*Q, {**A[0], "weight": 0.5}],
        [*Q, {**A[0], "weight": "much"}],
        [*Q, {**A[0], "loss": [1]}],
        [{**Q[0], "train": True}, *A],
    ],
)
def test_flags_that_say_nothing_of_an_answer_are_named_as_unused(
    workshop: Workshop, rows: list[dict[str, Any]], changes: dict[str, Any]
) -> None:
    cache = workshop.build(workshop.jsonl([{"messages": rows}]), changes)
    assert texts(workshop, cache) == [(turn("Q", "A"), "A<|im_end|>\n")]
    [name] = cache.description.sources[0].unused_fields
    assert name in {"messages.weight", "messages.loss", "messages.train"} and not warned(workshop)


def test_flags_that_ask_for_more_than_is_learned_are_a_warning(workshop: Workshop) -> None:
    yes = {**A[0], "train": True}
    path = workshop.jsonl([{"messages": [{**Q[0], "weight": 0}, yes, *Q, *A]}])
    for train_on in ("assistant", "all"):
        cache = workshop.build(path, {**PLAIN, "recipe.data.train_on": train_on})
        assert not cache.description.sources[0].unused_fields and not warned(workshop)
    unused = workshop.build(path, PLAIN).description.sources[0].unused_fields
    assert list(unused) == ["messages.train of earlier answers"]
    [said] = warned(workshop)
    assert said.startswith('1 row of train.jsonl: "train" asks to learn answers before the last one, and')


def test_flags_never_reach_the_template(workshop: Workshop, tmp_path: Path, home: Path) -> None:
    whole = "{% for m in messages %}{{ m | tojson }}<|im_end|>{% endfor %}{{ '{' if add_generation_prompt }}"
    prints = Workshop(tmp_path / "prints", write_base(tmp_path / "base", llama3_like(), whole), home)
    (tmp_path / "prints").mkdir(exist_ok=True)
    flagged = [{**Q[0], "weight": 1}, NO, *Q, {**A[0], "weight": 1}]
    [(text, _)] = texts(prints, prints.build(prints.jsonl([{"messages": flagged}]), EACH))
    assert "weight" not in text and "no" in text
    messages, _ = RowReader({}).read(json.dumps({"messages": flagged}))
    assert "weight" not in messages


def test_rows_that_differ_in_what_is_learned_are_not_copies(workshop: Workshop) -> None:
    dialogues = [[*Q, NO, *Q, *A], [*Q, {**NO, "weight": 1}, *Q, {**A[0], "weight": 0}]]
    path = workshop.jsonl([{"messages": dialogue} for dialogue in [*dialogues, dialogues[0]]])
    cache = workshop.build(path, {**EACH, "recipe.data.deduplicate": True})
    assert [learned for _, learned in texts(workshop, cache)] == ["A<|im_end|>\n", "no<|im_end|>\n"]
    assert cache.ledger()["dropped_duplicate"] == 1


def test_calls_that_are_not_to_be_learned(tmp_path: Path, home: Path, workshop: Workshop) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    knows = Workshop(tmp_path / "knows", write_base(tmp_path / "base", llama3_like(), template), home)
    (tmp_path / "knows").mkdir(exist_ok=True)
    call = {"role": "tool_call", "content": '{"name": "weather", "arguments": {"town": "Oslo"}}'}
    rest = [{"role": "tool_response", "content": "rain"}, *A]
    paths = [
        knows.jsonl([{"messages": [*Q, one, *rest]}], f"{name}.jsonl")
        for name, one in (("all", call), ("answer", {**call, "loss": False}))
    ]
    [(text, every)], [(same, answer)] = (texts(knows, knows.build(path, EACH)) for path in paths)
    assert text == same and "weather" in every and every.endswith(answer)
    assert "weather" not in answer and answer.endswith("A<|im_end|>\n")


@pytest.mark.parametrize("asks", [("instruction", "output"), ("query", "response"), ("prompt", "completion")])
def test_what_was_said_before_is_read_with_the_question(workshop: Workshop, asks: tuple[str, str]) -> None:
    question, answer = asks
    row = {question: "Q", answer: "A", "system": "S", "history": [["one?", "1"], ["two?", "2"]]}
    path = workshop.jsonl([row])
    dialogue = turn("one?", "1", "S") + turn("two?", "2") + turn("Q", "A")
    cache = workshop.build(path, PLAIN)
    assert texts(workshop, cache) == [(dialogue, "A<|im_end|>\n")]
    assert not cache.description.sources[0].unused_fields
    cache = workshop.build(path, {**PLAIN, "recipe.data.train_on": "assistant"})
    assert texts(workshop, cache)[0][1] == "1<|im_end|>\n2<|im_end|>\nA<|im_end|>\n"


def test_turns_that_are_calls_are_learned_as_calls(tmp_path: Path, home: Path, workshop: Workshop) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    knows = Workshop(tmp_path / "knows", write_base(tmp_path / "base", llama3_like(), template), home)
    (tmp_path / "knows").mkdir(exist_ok=True)
    arguments = {"town": 'Oslo "N"'}
    said = json.dumps({"name": "weather", "arguments": arguments})
    openai = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": json.loads(said)}],
    }
    sharegpt = [
        {"from": "human", "value": "Q"},
        {"from": "function_call", "value": said},
        {"from": "observation", "value": "rain"},
        {"from": "gpt", "value": "A"},
    ]
    swift = [
        *Q,
        {"role": "tool_call", "content": f"[{said}]"},
        {"role": "tool_response", "content": "rain"},
        *A,
    ]
    other = [*Q, openai, {"role": "tool", "content": "rain"}, *A]
    built = [
        texts(
            knows,
            knows.build(knows.jsonl([row], f"{place}.jsonl"), {**PLAIN, "recipe.data.train_on": "assistant"}),
        )
        for place, row in enumerate(({"conversations": sharegpt}, {"messages": swift}, {"messages": other}))
    ]
    assert built[0] == built[1] == built[2]
    assert "<tool_call>" in built[0][0][1] and "weather" in built[0][0][1], "the call is learned"
    with pytest.raises(BadInput, match='calls tools \\("function_call"\\), which the chat template'):
        workshop.build(workshop.jsonl([{"conversations": sharegpt}]), PLAIN)
    sharegpt[1]["value"] = "weather(Oslo)"
    with pytest.raises(BadInput, match='message 2 is a "function_call" whose text is not a call'):
        knows.build(knows.jsonl([{"conversations": sharegpt}], "text.jsonl"), PLAIN)


def test_a_template_that_knows_tools_renders_the_calls(tmp_path: Path, home: Path) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    function = {"name": "weather", "parameters": {}}
    call = {"function": {"name": "weather", "arguments": '{"town": "Oslo"}'}, "id": "c1", "type": "function"}
    dialogue = [*Q, {"role": "assistant", "content": None, "tool_calls": [call]}]
    for tools in (
        [{"type": "function", "function": function}],
        json.dumps([{"type": "function", "function": function}]),
    ):
        path = workshop.jsonl([{"messages": dialogue, "tools": tools}])
        [(text, learned)] = texts(workshop, workshop.build(path, PLAIN))
        assert '{"type": "function", "function": {"name": "weather", "parameters": {}}}' in text
        assert '{"name": "weather", "arguments": {"town": "Oslo"}}' in learned


def test_tools_beside_a_prompt_reach_the_template(tmp_path: Path, home: Path) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    tool = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    cache = workshop.build(workshop.jsonl([{"prompt": "Q", "completion": "A", "tools": [tool]}]), PLAIN)
    [(text, learned)] = texts(workshop, cache)
    assert '"name": "weather"' in text and learned.endswith("A<|im_end|>\n")


def test_an_empty_answer_is_refused_beside_tools_too(tmp_path: Path, home: Path) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    thought = {"role": "assistant", "content": "", "reasoning_content": "Nothing to say."}
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    rows = [
        {"messages": [*Q, answer], "tools": tools}
        for answer in (thought, call, {"role": "assistant", "content": " ", "tool_calls": []})
    ]
    with pytest.raises(BadInput, match=r"train\.jsonl:3: the last assistant message is empty"):
        workshop.build(workshop.jsonl(rows), PLAIN)
    assert workshop.build(workshop.jsonl(rows[:2]), PLAIN).ledger()["used"] == 2


def test_calls_keep_the_digits_of_long_integers(tmp_path: Path, home: Path) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    given = {"of": 2**64, "to": 10**50 + 1}
    for arguments in (given, json.dumps(given)):
        call = {"function": {"name": "pay", "arguments": arguments}}
        row = {"messages": [*Q, {"role": "assistant", "content": "", "tool_calls": [call]}]}
        [(_, learned)] = texts(workshop, workshop.build(workshop.jsonl([row]), PLAIN))
        assert json.dumps(given) in learned


def test_of_keys_that_are_written_twice_the_last_one_counts(workshop: Workshop) -> None:
    many = {f"k{at}": at for at in range(40)}
    answers = ['{"a": 1, "b": 2, "a": {"c": 3, "c": 4}}', json.dumps(many)[:-1] + ', "k7": 2}']
    path = workshop.folder / "twice.jsonl"
    rows = [f'{{"prompt": "no", "completion": {answer}, "prompt": "Q"}}' for answer in answers]
    path.write_text("\n".join(rows))
    learned = ['{"a":{"c":4},"b":2}', json.dumps({**many, "k7": 2}, separators=(",", ":"))]
    assert texts(workshop, workshop.build(path, PLAIN)) == [
        (turn("Q", one), f"{one}<|im_end|>\n") for one in learned
    ]
    for row, one in zip(rows, learned, strict=True):
        assert json.loads(RowReader({}).read(row)[0])[-1]["content"] == one


# Named, because pyarrow 18 sorts the fields that it finds by their names.
TEXT, KIND = pa.string(), pa.struct([("type", pa.string())])
ARGUMENTS = pa.struct([("town", TEXT), ("x", pa.int64()), ("near", pa.list_(pa.int64()))])
CALL = pa.struct([("function", pa.struct([("name", TEXT), ("arguments", ARGUMENTS)]))])
PARAMETERS = pa.struct([("properties", pa.struct([(name, KIND) for name in ("town", "x", "near")]))])
TOOL = pa.struct([("type", TEXT), ("function", pa.struct([("name", TEXT), ("parameters", PARAMETERS)]))])
MESSAGE = pa.struct([("role", TEXT), ("content", TEXT), ("tool_calls", pa.list_(CALL))])
CALLS = pa.schema([("messages", pa.list_(MESSAGE)), ("tools", pa.list_(TOOL))])


def test_columns_give_calls_and_tools_no_keys_of_other_rows(tmp_path: Path, home: Path) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    arguments: list[dict[str, Any]] = [{"town": "Oslo"}, {"x": 1, "near": [None, 2]}]
    rows = [
        {
            "messages": [*Q, {"role": "assistant", "content": "", "tool_calls": [{"function": call}]}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": told}}}],
        }
        for given in arguments
        for call in [{"name": "f", "arguments": given}]
        for told in [{name: {"type": "string"} for name in given}]
    ]
    written = texts(workshop, workshop.build(workshop.jsonl(rows), PLAIN))
    path = workshop.folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows, CALLS), path)
    assert texts(workshop, workshop.build(path, PLAIN)) == written
    plan = workshop.plan(path, PLAIN)
    shown = rows_as_json(plan.recipe.data.train[0], plan.machine.paths.data, 9)
    assert [json.loads(row) for row in shown] == rows


def test_columns_give_an_answer_no_keys_of_other_rows(workshop: Workshop) -> None:
    answers = [{"name": "Ann", "of": {"town": "Oslo"}}, {"age": 3, "of": {"land": "NO"}, "in": [None]}]
    # A key that no row has a value for is a column of nulls.
    rows = [{"prompt": "Q", "completion": {**answer, "note": None}} for answer in answers]
    path = workshop.folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    learned = [json.dumps(answer, separators=(",", ":")) for answer in answers]
    found = texts(workshop, workshop.build(path, PLAIN))
    assert [json.loads(text.removesuffix("<|im_end|>\n")) for _, text in found] == answers
    assert found[0] == (turn("Q", learned[0]), f"{learned[0]}<|im_end|>\n")


@pytest.mark.parametrize("name", ["label", "question", "tools", "image", "messages", "system"])
def test_a_number_that_is_not_finite_is_an_absent_field(workshop: Workshop, name: str) -> None:
    path = workshop.folder / "rows.parquet"
    pq.write_table(pa.table({"prompt": ["Q"], "answer": ["A"], name: [float("nan")]}), path)
    assert texts(workshop, workshop.build(path, PLAIN)) == [(turn("Q", "A"), "A<|im_end|>\n")]


def test_earlier_answers_are_learned_with_tools_too(tmp_path: Path, home: Path) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    tool = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    call = {"function": {"name": "weather", "arguments": {"town": "Oslo"}}}
    dialogue = [
        *Q,
        {"role": "assistant", "content": "ok first"},
        *Q,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "observation", "content": "RAIN"},
        *A,
        *Q,
        {"role": "assistant", "content": "second"},
    ]
    path = workshop.jsonl([{"messages": dialogue, "tools": [tool]}])
    [(text, learned)] = texts(workshop, workshop.build(path, {**PLAIN, "recipe.data.train_on": "assistant"}))
    assert "<tool_response>\nRAIN" in text
    # The template prints a line break before a call: it is the answer's first token.
    calls = '\n<tool_call>\n{"name": "weather", "arguments": {"town": "Oslo"}}\n</tool_call>'
    assert learned.split("<|im_end|>") == ["ok first", calls, "A", "<think>\n\n</think>\n\nsecond", "\n"]


def test_a_call_is_as_long_as_its_arguments(tmp_path: Path, home: Path) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    arguments = '{"town": "Oslo"}'
    call = {"id": "c" * 50, "type": "function", "function": {"name": "weather", "arguments": arguments}}
    size = len("Q" + arguments)
    rows = [{"messages": [*Q, {"role": "assistant", "content": "", "tool_calls": [call]}]}]
    rows += [{"prompt": "Q", "completion": "A" * (length - 1)} for length in (size - 1, size, size + 1)]
    for least, most, used in ((size, size, 2), (size + 1, None, 1), (None, size - 1, 1)):
        changes = {"recipe.data.min_length": least, "recipe.data.max_length": most}
        assert workshop.build(workshop.jsonl(rows), {**PLAIN, **changes}).ledger()["used"] == used


def test_arguments_are_written_as_the_template_takes_them(tmp_path: Path, home: Path) -> None:
    template = (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}{% for c in m.tool_calls %}"
        "{{ '<tool>' + c.function.arguments }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    call = {"function": {"name": "f", "arguments": '{"a":1}'}}
    row = {"messages": [*Q, {"role": "assistant", "content": None, "tool_calls": [call]}]}
    [(_, learned)] = texts(workshop, workshop.build(workshop.jsonl([row]), PLAIN))
    assert learned == '<tool>{"a":1}<|im_end|>\n'


WITH_CALLS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}"
    "{% for c in m.tool_calls %}{{ '<tool>' + c.function.name }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}"
)


@pytest.mark.parametrize("train_on", ["completions", "assistant"])
def test_a_call_without_a_thought_is_learned_where_prompts_open_one(
    tmp_path: Path, home: Path, train_on: str
) -> None:
    template = (
        WITH_CALLS + "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
    )
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}
    dialogue = [*Q, call, {"role": "tool", "content": "R"}, call]
    changes = {**PLAIN, "recipe.data.train_on": train_on}
    [(text, learned)] = texts(workshop, workshop.build(workshop.jsonl([{"messages": dialogue}]), changes))
    assert text.endswith("<|im_start|>assistant\n<tool>f<|im_end|>\n")
    each = "<tool>f<|im_end|>" if train_on == "assistant" else ""
    assert learned == f"{each}<tool>f<|im_end|>\n"


def test_a_call_that_does_not_follow_the_prompt_is_refused_in_its_own_words(
    tmp_path: Path, home: Path
) -> None:
    template = WITH_CALLS + "{% if add_generation_prompt %}{{ '[answer]' }}{% endif %}"
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like(), template), home)
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}
    path = workshop.jsonl([{"messages": [*Q, *A]}, {"messages": [*Q, call]}])
    with pytest.raises(BadInput, match="message 2, the last answer, so that it does not follow") as caught:
        workshop.build(path, PLAIN)
    workshop.build(path, {**PLAIN, **pasted(caught.value.hint or "")})


def test_fields_that_are_not_used_are_named(workshop: Workshop) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "Q", "completion": "A", "id": 1, "meta": {"x": 1}, "empty": None}
    ] * 3
    cache = workshop.build(workshop.jsonl([*rows, {"messages": [{**Q[0], "mood": "x"}, *A], "n": 1}]), PLAIN)
    [source] = cache.description.sources
    assert source.unused_fields == {"id": 3, "meta": 3, "messages.mood": 1, "n": 1}
    notes = [line.note for line in workshop.said if getattr(line, "key", None) == "data.unused_fields"]
    assert notes == [
        'Not used in train.jsonl: "id" (3 rows), "messages.mood" (1 row), "meta" (3 rows), "n" (1 row)'
    ]
    again = workshop.build(workshop.folder / "train.jsonl", PLAIN)
    assert again.existed and notes == [
        line.note for line in workshop.said if getattr(line, "key", None) == "data.unused_fields"
    ]
    twice = {"messages": [{"role": "system", "content": "S"}, *Q, *A], "system": "another"}
    [source] = workshop.build(workshop.jsonl([twice], "twice.jsonl"), PLAIN).description.sources
    assert source.unused_fields == {"system": 1}
    mapped = {**PLAIN, "recipe.data.field_mapping": {"prompt": "meta.x", "completion": "completion"}}
    [source] = workshop.build(workshop.jsonl(rows), mapped).description.sources
    assert source.unused_fields == {"prompt": 3, "id": 3}


def test_a_context_is_read_where_it_is_mapped(workshop: Workshop) -> None:
    path = workshop.jsonl([{"q": "What colour?", "a": "red", "passage": "The ball is red."}])
    mapping = {"prompt": "q", "completion": "a", "context": "passage"}
    cache = workshop.build(path, {**PLAIN, "recipe.data.field_mapping": mapping})
    assert texts(workshop, cache)[0][0] == turn("What colour?\n\nThe ball is red.", "red")
    assert cache.description.sources[0].unused_fields == {}


@pytest.mark.parametrize("name", ["system", "system_prompt"])
def test_a_system_message_is_optional_where_it_is_mapped(workshop: Workshop, name: str) -> None:
    path = workshop.jsonl([{"q": "Q", "a": "A", "role": "Be brief."}, {"q": "Q", "a": "A"}])
    mapping = {"prompt": "q", "completion": "a", name: "role"}
    cache = workshop.build(path, {**PLAIN, "recipe.data.field_mapping": mapping})
    assert [text for text, _ in texts(workshop, cache)] == [turn("Q", "A", "Be brief."), turn("Q", "A")]


def test_a_mistake_is_reported_once_with_its_count(workshop: Workshop) -> None:
    mistakes = [({"prompt": "Q"}, 3000), ({"messages": []}, 2), ({"text": " "}, 1)]
    path = workshop.jsonl([row for row, count in mistakes for _ in range(count)])
    with pytest.raises(BadInput) as caught:
        workshop.build(path)
    lines = caught.value.message.splitlines()
    assert lines[0] == "3,003 rows are broken:"
    assert lines[1].endswith("(3,000 rows: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)")
    assert lines[2].startswith("train.jsonl:3001: ") and lines[2].endswith("(2 rows: 3001, 3002)")
    assert lines[3] == 'train.jsonl:3003: the field "text" is empty'
    assert len(lines) == 4


def test_what_names_or_explains_a_question_is_not_proposed_as_its_answer(workshop: Workshop) -> None:
    row = {
        "id": "1",
        "title": "France",
        "context": "Paris is in France.",
        "question": "Where is Paris?",
        "answers": {"text": ["France"], "answer_start": [12]},
    }
    with pytest.raises(BadInput) as caught:
        workshop.build(workshop.jsonl([row]), PLAIN)
    assert caught.value.hint and "field_mapping" not in caught.value.hint
