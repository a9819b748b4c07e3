"""A question is asked as training has learned it, whatever shape the row was written in."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evaluate.test_odd_tokenizers import byte_fallback
from plans import example_plan
from pretokenize.bases import llama3_like, write_base
from pretokenize.test_data import PLAIN, texts, turn
from pretokenize.test_shapes import TEMPLATES, UNDERSTOOD
from pretokenize.workshop import Workshop
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from expert_worker._native import BUILTIN_TEMPLATES
from expert_worker.errors import BadInput
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.rows import canonical_row, level_of, rows_of, tags_of
from expert_worker.evaluate.scores import by_level, by_tag
from expert_worker.pretokenize.broken_rows import BrokenRows


def asked(row: Any, mapping: dict[str, str] | None = None) -> str:
    """The row as a template would print it."""
    found = canonical_row(row, mapping or {})
    *before, question = found["messages"]
    system = before[0]["content"] if before else None
    assert question["role"] == "user"
    return turn(question["content"], found["completion"], system)


@pytest.mark.parametrize(
    "name", [name for name, (_, expected) in UNDERSTOOD.items() if "<|im_start|>" in expected]
)
def test_every_shape_that_training_understands(name: str) -> None:
    row, expected = UNDERSTOOD[name]
    assert asked(row) == expected


def test_mapped_fields_and_the_row_s_own() -> None:
    row = {"q": "Q", "a": "A", "about": "I", "who": "S", "tags": ["x"], "seed": 3}
    mapping = {"prompt": "q", "completion": "a", "context": "about", "system": "who"}
    assert asked(row, mapping) == turn("Q\n\nI", "A", "S")
    found = canonical_row(row, mapping)
    assert (found["tags"], found["seed"], found["q"]) == (["x"], 3, "Q")


@pytest.mark.parametrize(
    ("given", "tags", "level"),
    [
        ({}, [], None),
        ({"tags": None, "level": None}, [], None),
        ({"tags": "", "level": ""}, [], None),
        ({"tags": "a tag, whole", "level": "easy"}, ["a tag, whole"], "easy"),
        ({"tags": ["a", None, "", 3], "level": 0}, ["a", "3"], "0"),
        ({"tags": [], "level": 2.0}, [], "2"),
        ({"level": 2.5}, [], "2.5"),
    ],
)
def test_tags_and_level_may_come_out_of_a_table(
    given: dict[str, Any], tags: list[str], level: str | None
) -> None:
    row = canonical_row({"prompt": "q", "completion": "a", **given}, {})
    assert tags_of(row) == by_tag(row) == tags
    assert level_of(row) == level and by_level(row) == ([] if level is None else [level])


def test_a_dialogue_is_asked_up_to_its_last_answer() -> None:
    parts = [{"type": "text", "text": "hello "}, {"type": "text", "text": "7"}]
    row = {
        "conversations": [
            {"from": "human", "value": "one"},
            {"from": "gpt", "value": "two"},
            {"from": "human", "value": parts},
            {"from": "gpt", "value": parts},
            {"from": "human", "value": "and then"},
        ]
    }
    found = canonical_row(row, {})
    said = [(message["role"], message["content"]) for message in found["messages"]]
    assert said == [("user", "one"), ("assistant", "two"), ("user", "hello 7")]
    assert found["completion"] == "hello 7"


def test_what_cannot_be_asked_is_refused() -> None:
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
    }
    for row, said in (
        ({"text": "words"}, "a scored row needs a prompt"),
        ({"frage": "Q", "antwort": "A"}, "no known shape"),
        ({"messages": [{"role": "user", "content": "Q"}, call]}, "only text is scored"),
    ):
        with pytest.raises(BadInput, match=said) as caught:
            canonical_row(row, {})
        assert caught.value.hint


def test_rows_that_cannot_be_asked_are_left_out_where_others_will_do(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in ({"text": "words"}, {"prompt": "Q", "completion": "A"}))
    )
    source = {"name": path.name, "format": "jsonl", "weight": 1.0, "task": None}
    plan = example_plan(
        tmp_path, {"recipe.data.train": [source], "machine.paths.data": {path.name: str(path)}}
    )
    data, places = plan.recipe.data, plan.machine.paths.data
    assert [row["completion"] for row in rows_of(data.train, {}, places, broken=BrokenRows())] == ["A"]
    with pytest.raises(BadInput, match=r"train\.jsonl:1"):
        rows_of(data.train, {}, places)


# The last ones stand within the tokens that end a turn.
COMPLETIONS = ["Seven, and one of them twice.", " 7\n", "d", "s", "|"]
ENDS = ["<end_of_turn>", "<|end|>", "<|im_end|>", "<|eot_id|>"]
STARTS = ["<|im_start|>", "<start_of_turn>", "<|user|>", "<|assistant|>", "<|end_of_text|>"]
EMPTY_THOUGHT = "<think>\n\n</think>\n\n"


@pytest.mark.parametrize("kind", sorted(dict(BUILTIN_TEMPLATES)))
@pytest.mark.parametrize("eos", ["<|eot_id|>", "<|end_of_text|>"])
@pytest.mark.parametrize("made", [llama3_like, byte_fallback])
def test_a_reference_answer_is_what_training_has_learned_up_to_the_end_of_the_turn(
    tmp_path: Path, kind: str, eos: str, made: Callable[[], Tokenizer]
) -> None:
    template = dict(BUILTIN_TEMPLATES)[kind]
    tokenizer = made()
    tokenizer.add_special_tokens([*ENDS, *STARTS])
    base = write_base(tmp_path / "base", tokenizer, template, eos_token=eos)
    rows = [{"prompt": "How many?", "completion": completion} for completion in COMPLETIONS]
    workshop = Workshop(tmp_path, base, tmp_path / "home")
    cache = workshop.build(workshop.jsonl(rows), PLAIN)
    loaded = AutoTokenizer.from_pretrained(base)
    answers = PromptMaker(loaded, template).answers([canonical_row(row, {}) for row in rows])
    for index, answer in enumerate(answers):
        learned = [int(label) for label in cache.train.row(index)[1] if label != -100]
        [start] = [at for at in range(len(learned)) if learned[at : at + len(answer)] == answer][-1:]
        # Questions are asked with an empty thought in the prompt. What training learns behind the end of the
        # turn is never generated.
        before, text, behind = (
            loaded.decode(ids).replace("\u2581", " ")
            for ids in (learned[:start], answer, learned[start + len(answer) :])
        )
        assert before in ("", EMPTY_THOUGHT)
        assert behind.replace(eos, "").strip() == ""
        assert text.endswith((eos, *ENDS)) and sum(text.count(end) for end in {eos, *ENDS}) == 1, text
        assert text.strip().startswith(COMPLETIONS[index].strip())


def test_the_prompt_of_a_row_with_tools_is_what_training_renders(tmp_path: Path) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    base = write_base(tmp_path / "base", llama3_like(), template)
    tool = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    call = {"function": {"name": "weather", "arguments": '{"town": "Oslo"}'}}
    row = {
        "messages": [
            {"role": "user", "content": "Rain in Oslo?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "observation", "content": "RAIN"},
            {"role": "assistant", "content": "Yes."},
        ],
        "tools": [tool],
    }
    workshop = Workshop(tmp_path, base, tmp_path / "home")
    [(text, learned)] = texts(workshop, workshop.build(workshop.jsonl([row]), PLAIN))
    maker = PromptMaker(AutoTokenizer.from_pretrained(base), template)
    [prompt] = maker.prompts([canonical_row(row, {})])
    shown = maker.tokenizer.decode(prompt.ids)
    assert '"name": "weather", "arguments": {"town": "Oslo"}' in shown and "RAIN" in shown
    assert text.startswith(shown.removesuffix("<think>\n\n</think>\n\n")) and "Yes." in learned
