"""Variables of chat templates: rows are trained on as they are asked for, and exported files agree."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pretokenize.bases import llama3_like, write_base
from pretokenize.test_data import PLAIN, texts
from pretokenize.test_template import SPECIALS, reference
from pretokenize.workshop import Workshop
from transformers import AutoTokenizer

from expert_worker._native import template_decides, template_reads
from expert_worker.errors import BadInput
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.plan import Template, TemplateValue
from expert_worker.pretokenize.template import renderer, template_text
from expert_worker.pretokenize.variables import with_answers_at_once, with_variables
from expert_worker.run_record.inference import chat_template

pytestmark = pytest.mark.usefixtures("unchecked")

TEMPLATES = Path(__file__).parent / "templates"
QUESTION = [{"role": "user", "content": "How many?"}]
ROWS = [{"prompt": "How many?", "completion": "Three."}]


def template_named(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text()


def built(
    workshop: Workshop, name: str, rows: list[dict[str, str]] = ROWS, **kwargs: TemplateValue
) -> tuple[str, str, str, Any]:
    """Text of the row, what is learned of it, the prompt of `evaluate`, and a tokenizer with the exported
    template."""
    workshop.base = write_base(workshop.folder / name, llama3_like(), template=template_named(name))
    changes = {**PLAIN, "recipe.template": {"kind": "tokenizer", "source": None, "kwargs": kwargs}}
    [(text, learned)] = texts(workshop, workshop.build(workshop.jsonl(rows), changes))
    tokenizer = AutoTokenizer.from_pretrained(workshop.base)
    template = Template(kind="tokenizer", kwargs=kwargs)
    asked = PromptMaker(tokenizer, template_text(template, tokenizer)).text(QUESTION)
    tokenizer.chat_template = chat_template(template, tokenizer)
    return text, learned, asked, tokenizer


CODE = "thoughts-not-asked-for"
THOUGHTLESS = "<think>\n\n</think>\n"


@pytest.mark.parametrize("thinking", [None, False, True])
def test_a_template_that_writes_the_mode_down_has_one_mode_in_rows_and_prompts(
    workshop: Workshop, thinking: bool | None
) -> None:
    kwargs: dict[str, TemplateValue] = {} if thinking is None else {"enable_thinking": thinking}
    text, learned, asked, tokenizer = built(workshop, "smollm3", **kwargs)
    mode = "/think" if thinking else "/no_think"
    assert f"Reasoning Mode: {mode}\n" in text
    assert asked.endswith("<|im_start|>assistant\n" + ("" if thinking else THOUGHTLESS))
    assert (text, learned) == (asked + learned, "Three.<|im_end|>\n")
    for other in ({}, {"enable_thinking": True}, {"enable_thinking": False}):
        exported = tokenizer.apply_chat_template(
            QUESTION, tokenize=False, add_generation_prompt=True, **other
        )
        assert without_date(exported) == without_date(asked)


def test_a_template_that_only_ends_prompts_otherwise_renders_rows_as_it_stands(workshop: Workshop) -> None:
    tokenizer = Named("qwen3")
    assert template_text(Template(kind="tokenizer"), tokenizer) == tokenizer.chat_template
    text, learned, asked, _ = built(workshop, "qwen3")
    empty = f"{THOUGHTLESS}\n"
    assert (text, learned) == (asked + "Three.<|im_end|>\n", f"{empty}Three.<|im_end|>\n")
    # Without thoughts, the empty thought is a part of the question.
    text, learned, asked, _ = built(workshop, "qwen3", enable_thinking=False)
    assert (text, learned) == (asked + learned, "Three.<|im_end|>\n") and asked.endswith(empty)


def test_thoughts_that_are_to_be_learned_are_asked_for(workshop: Workshop) -> None:
    rows = [{"prompt": "How many?", "completion": "<think>\none, two\n</think>\n\nThree."}]
    text, learned, asked, tokenizer = built(workshop, "qwen3", rows, enable_thinking=True)
    assert asked.endswith("<|im_start|>assistant\n")
    assert (text, learned) == (asked + learned, f"{rows[0]['completion']}<|im_end|>\n")
    for other in ({}, {"enable_thinking": False}):
        assert asked == tokenizer.apply_chat_template(
            QUESTION, tokenize=False, add_generation_prompt=True, **other
        )


@pytest.mark.parametrize(
    ("answer", "thinks"),
    [
        ("<think>\none\n</think>\n\nThree.", True),
        ("one, two\n</think>\n\nThree.", True),
        ("<think>\n\n</think>\n\nThree.", False),
        ("Three.", False),
        ("Use <think> and </think>", False),
    ],
)
@pytest.mark.parametrize("name", ["qwen3", "smollm3"])
def test_thoughts_that_nobody_will_ask_for_are_warned_of(
    workshop: Workshop, name: str, answer: str, thinks: bool
) -> None:
    rows = [*ROWS, {"prompt": "How many?", "completion": answer}]
    for kwargs, warned in (({}, thinks), ({"enable_thinking": True}, False)):
        workshop.base = write_base(workshop.folder / name, llama3_like(), template=template_named(name))
        changes = {"recipe.template": {"kind": "tokenizer", "source": None, "kwargs": kwargs}}
        # Also where the cache is there already.
        for _ in range(2):
            workshop.build(workshop.jsonl(rows), changes)
            said = [line.message for line in workshop.said if getattr(line, "code", "") == CODE]
            assert len(said) == warned
            assert not said or said[0].startswith("1 of the first 2 rows: answers begin with thoughts")


def warned(workshop: Workshop, name: str, messages: list[dict[str, str]], **changes: Any) -> list[Any]:
    workshop.base = write_base(workshop.folder / name, llama3_like(), template=template_named(name))
    workshop.build(workshop.jsonl([{"messages": messages}]), {**LONG, **changes})
    codes = (CODE, "thoughts-left-out", "reasoning-not-learned")
    return [line for line in workshop.said if getattr(line, "code", "") in codes]


LONG = {"recipe.batch.max_seq_length": 2048}
THOUGHT = "<think>\none, two\n</think>\n\n"


def test_each_answer_that_is_learned_is_looked_at(workshop: Workshop) -> None:
    first = {"role": "assistant", "content": THOUGHT + "Three."}
    messages = [*QUESTION, first, *QUESTION, {"role": "assistant", "content": "Four."}]
    assert warned(workshop, "smollm3", messages) == []
    [said] = warned(workshop, "smollm3", messages, **{"recipe.data.train_on": "assistant"})
    assert said.code == CODE
    # Qwen3's template leaves the thoughts of earlier answers out.
    [said] = warned(workshop, "qwen3", messages, **{"recipe.data.train_on": "assistant"})
    assert said.code == "thoughts-left-out"


def test_a_message_may_turn_thoughts_on_or_off(workshop: Workshop) -> None:
    answer = {"role": "assistant", "content": THOUGHT + "Three."}

    def with_system(text: str) -> list[dict[str, str]]:
        return [{"role": "system", "content": text}, *QUESTION, answer]

    assert warned(workshop, "smollm3", with_system("Be short. /think")) == []
    on = {"recipe.template": {"kind": "tokenizer", "source": None, "kwargs": {"enable_thinking": True}}}
    [said] = warned(workshop, "smollm3", with_system("Be short. /no_think"), **on)
    assert said.hint.startswith("Let no message turn thoughts off, as /no_think does")


def test_thoughts_that_the_template_does_not_print_are_not_asked_for_either(workshop: Workshop) -> None:
    answer = {"role": "assistant", "content": "Three.", "reasoning_content": "one, two"}
    [said] = warned(workshop, "smollm3", [*QUESTION, answer])
    assert said.code == "reasoning-not-learned"
    messages = [*QUESTION, answer, *QUESTION, {**answer, "reasoning_content": "three, four"}]
    said = warned(workshop, "qwen3", messages, **{"recipe.data.train_on": "assistant"})
    assert [line.code for line in said] == [CODE, "thoughts-left-out"]


def test_an_answer_is_learned_without_the_thoughts_that_its_template_leaves_out(workshop: Workshop) -> None:
    source = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1].strip() }}</s>{% endfor %}"
        "{% if add_generation_prompt %}<assistant><think>\n{% endif %}"
    )
    rows = [{"prompt": "How many?", "completion": THOUGHT + "Three."}]
    template = {"recipe.template": {"kind": "custom", "source": source}}
    cache = workshop.build(workshop.jsonl(rows), {**PLAIN, **template})
    [(text, learned)] = texts(workshop, cache)
    assert text.startswith("<user>How many?</s><assistant>Three.</s>") and learned.startswith("Three.</s>")
    codes = [getattr(line, "code", "") for line in workshop.said]
    assert "thoughts-left-out" in codes and "prompt-not-in-rows" in codes


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("{% if thinking %}x{% endif %}", True),
        ("{%- set on = thinking | default(true) -%}", True),
        ("{{ message.thinking }}{{ m['thinking'] }}", False),
        ("{# thinking #}{{ 'thinking' }} thinking", False),
        ("{{ rethinking }}{# {{ thinking }} #}", False),
        ("{# {% #}{{ thinking }}", True),
    ],
)
def test_a_word_of_a_template_is_not_always_a_variable(text: str, is_read: bool) -> None:
    assert template_reads(text, "thinking") is is_read


def test_a_default_in_the_template_decides_nothing() -> None:
    text = "{% set enable_thinking = enable_thinking | default(true) %}{{ enable_thinking }}"
    assert with_answers_at_once(text) == "{% set enable_thinking = false %}" + text


def test_thoughts_of_a_later_file_are_found(workshop: Workshop) -> None:
    workshop.base = write_base(workshop.folder / "two", llama3_like(), template=template_named("qwen3"))
    thinking = {"prompt": "How many?", "completion": "<think>\none, two\n</think>\n\nThree."}
    files = {"a.jsonl": [ROWS[0]] * 300, "b.jsonl": [thinking] * 2}
    paths = {name: str(workshop.jsonl(rows, name)) for name, rows in files.items()}
    sources = [{"name": name, "format": "jsonl", "weight": 1.0, "task": None} for name in files]
    changes = {"recipe.data.train": sources, "machine.paths.data": paths}
    workshop.build(workshop.folder / "a.jsonl", changes)
    [said] = [line for line in workshop.said if getattr(line, "code", "") == CODE]
    assert said.message.startswith("2 of the first 258 rows: ") and '"enable_thinking": true' in said.hint


def test_the_advice_names_no_variable_that_the_template_does_not_read(workshop: Workshop) -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{{ '<think>' if thinking else '</think>' }}{% endif %}"
    )
    workshop.base = write_base(workshop.folder / "deep", llama3_like(), template=template)
    rows = [{"prompt": "How many?", "completion": "<think>one, two</think>\nThree."}]
    workshop.build(workshop.jsonl(rows))
    [said] = [line for line in workshop.said if getattr(line, "code", "") == CODE]
    assert "enable_thinking" not in said.hint and "such as thinking" in said.hint


def test_thoughts_in_a_separate_field_are_warned_of(workshop: Workshop) -> None:
    answer = {"role": "assistant", "content": "Three.", "reasoning_content": "one, two"}
    rows = [{"messages": [*QUESTION, answer]}]
    workshop.base = write_base(workshop.folder / "own", llama3_like(), template=template_named("qwen3"))
    workshop.build(workshop.jsonl(rows))
    assert [line.message for line in workshop.said if getattr(line, "code", "") == CODE] == [
        "1 of the first 1 rows: answers begin with thoughts, and the prompts of evaluate, generate and "
        "serve end with an empty thought, so the expert would answer without them"
    ]


def test_a_variable_that_the_template_does_not_read_is_refused(workshop: Workshop) -> None:
    with pytest.raises(BadInput, match="of tiny does not read enable_thinking") as said:
        built(workshop, "llama3", enable_thinking=True)
    assert said.value.code == "template-variable-unread"
    workshop.base = write_base(workshop.folder / "bare", llama3_like(), template=None)
    changes = {"recipe.template": {"kind": "tokenizer", "source": None, "kwargs": {"thinking": True}}}
    with pytest.raises(BadInput, match="does not read thinking"):
        workshop.build(workshop.jsonl(ROWS), changes)


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        ("{% set mode = 'a' %}{% if mode %}x{% endif %}", True),
        ("{%- set other = 1 -%}\n{%- set mode = 'a' -%}{{ mode }}", True),
        ("{% if tools %}x{% endif %}{% set mode = 'a' %}{{ mode }}", True),
        ("{% generation %}x{% endgeneration %}{% set mode = 'a' %}{{ mode }}", True),
        ("{% set mode = mode | default('a') %}{{ mode }}", False),
        ("{% if mode is not defined %}{% set mode = 'a' %}{% endif %}{{ mode }}", False),
        ("{% if tools %}{% set mode = 'a' %}{% endif %}{{ mode }}", False),
        ("{% set block %}{% set mode = 'a' %}{% endset %}{{ mode }}", False),
        ("{{ mode }}{% set mode = 'a' %}", False),
        ("{# {% set mode = 'a' %} #}{{ mode }}", False),
    ],
)
def test_a_template_that_sets_a_variable_itself_is_known(text: str, decides: bool) -> None:
    assert template_decides(text, "mode") is decides


def test_a_variable_that_the_template_sets_itself_is_refused(workshop: Workshop) -> None:
    text = "{% set mode = 'a' %}{% for m in messages %}{{ mode }}{{ m.content }}{% endfor %}"
    template = {"kind": "custom", "source": text, "kwargs": {"mode": "b"}}
    with pytest.raises(BadInput, match="sets mode itself") as said:
        workshop.build(workshop.jsonl(ROWS), {"recipe.template": template})
    assert said.value.code == "template-variable-unread"


@pytest.mark.parametrize(
    "value", [True, False, 0, -7, 9007199254740991, "low", 'it\'s "so" \\ 50%', "漢字 😀 é"]
)
def test_values_are_the_same_in_every_renderer(value: TemplateValue) -> None:
    text = (
        "\n{%- macro told() -%}{{ level is string }} {{ level }}{%- endmacro -%}\n{{ told() }}{{ level }}"
        "{% if level is not defined %}lost{% endif %}"
        "{% for m in messages %}{{ level }}{{ m.content }}{% endfor %}"
    )
    whole = with_variables("\n" + text, {"level": value, "other": "x"})
    shown = renderer(whole, SPECIALS).render(json.dumps(QUESTION), False)[0]
    assert shown == reference(whole, QUESTION)
    assert shown == reference("\n" + text, QUESTION, level=value)


@pytest.mark.parametrize("start", ["", "\n", "\r\n", "  ", "\t \n  ", "    {% if level %}y{% endif %}\n  "])
def test_variables_change_nothing_else_of_what_a_template_prints(start: str) -> None:
    text = start + "  {% if true %}\n  X{% endif %}\n{{ level }}"
    whole = with_variables(text, {"level": 1})
    expected = reference(text, QUESTION, level=1)
    assert reference(whole, QUESTION) == expected
    assert renderer(whole, SPECIALS).render(json.dumps(QUESTION), False)[0] == expected


def test_a_template_without_a_place_for_system_messages_has_one_mode_too() -> None:
    text = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{{ m.content }}{% if m.role == 'user' and enable_thinking is defined and not enable_thinking %}"
        "/nothink{% endif %}\n{% endfor %}"
    )
    template = Template(kind="custom", source=text)
    assert template_text(template, Named("qwen3")) == with_answers_at_once(text) != text


def test_the_text_says_once_whether_there_are_thoughts() -> None:
    text = template_named("qwen3")
    off = with_answers_at_once(text)
    assert off == "{% set enable_thinking = false %}" + text and with_answers_at_once(off) == off
    on = with_variables(text, {"style": "a b", "enable_thinking": True})
    assert with_answers_at_once(on) == on
    # Another variable whose name ends so, or a later change, decides nothing.
    assert with_answers_at_once(with_variables(text, {"not_enable_thinking": True})) != text
    assert with_answers_at_once("{{ enable_thinkings }}") == "{{ enable_thinkings }}"


class Named:
    """What is asked of a tokenizer here."""

    special_tokens_map: ClassVar[dict[str, str]] = {}

    def __init__(self, name: str) -> None:
        self.chat_template = template_named(name)

    def get_chat_template(self) -> str:
        return self.chat_template


def without_date(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("Today")]
