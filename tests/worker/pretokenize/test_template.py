"""Rendered text and what is learned of it, against transformers' own rendering."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from pretokenize.bases import CHATML, llama3_like, write_base
from pretokenize.test_data import PLAIN, texts, turn
from pretokenize.test_encoder import smollm2
from pretokenize.workshop import Workshop
from transformers.utils.chat_template_utils import render_jinja_template

from expert_worker._native import BUILTIN_TEMPLATES, Recipe, Tokenizer
from expert_worker.errors import BadInput
from expert_worker.pretokenize.coder import oracle_coder

# test_fallback.py and test_families.py look at the check.
pytestmark = pytest.mark.usefixtures("unchecked")

BUILTIN = dict(BUILTIN_TEMPLATES)
SPECIALS = {"bos_token": "<s>", "eos_token": "</s>"}
CONTENTS = [
    "Hi",
    " padded \n",
    "{\"a\": 'b'}",
    "<think>\nhm\n</think>\n\nso",
    "two\n\nlines",
    "漢字 😀",
    "</think>",
]


def recipe(template: str, **changes: Any) -> Recipe:
    standard: dict[str, Any] = {
        "specials": SPECIALS,
        "mapping": {},
        "parse_dialogue": True,
        "train_on": "completions",
        "eos": [],
        "stops": ["<|im_end|>", "</s>"],
        "prefix": [],
        "suffix": [],
        "max_seq_length": 4096,
        "overlong": "truncate",
        "deduplicate": False,
        "min_length": None,
        "max_length": None,
        "interpret": False,
    }
    return Recipe(template=template, **{**standard, **changes})


def reference(template: str, messages: list[dict[str, Any]], *, prompt: bool = False, **options: Any) -> str:
    texts, _ = render_jinja_template(
        conversations=[messages], chat_template=template, add_generation_prompt=prompt, **SPECIALS, **options
    )
    return str(texts[0])


def dialogues() -> list[list[dict[str, str]]]:
    out = []
    for system in (None, "Be brief."):
        for question in CONTENTS:
            for answer in CONTENTS:
                start = [{"role": "system", "content": system}] if system else []
                out.append(
                    [*start, {"role": "user", "content": question}, {"role": "assistant", "content": answer}]
                )
    return out + [one + two for one, two in zip(out[:40], out[20:49], strict=False)]


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_built_in_templates_render_as_transformers_renders_them(name: str) -> None:
    ours = recipe(BUILTIN[name])
    for messages in dialogues():
        expected = reference(BUILTIN[name], messages)
        assert ours.render(json.dumps(messages), False)[0] == expected
        asked = reference(BUILTIN[name], messages[:-1], prompt=True)
        assert ours.render(json.dumps(messages[:-1]), True)[0] == asked


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_a_compiled_template_renders_what_the_interpreter_renders(name: str, workshop: Workshop) -> None:
    coder = Tokenizer(Tokenizer.compile((workshop.base / "tokenizer.json").read_bytes()))
    fast, slow = recipe(BUILTIN[name]), recipe(BUILTIN[name], interpret=True)
    for messages in dialogues():
        row = json.dumps({"messages": messages})
        assert fast.show(row, coder) == slow.show(row, coder)
        text, spans, _, _ = fast.show(row, coder)
        if messages[-1]["content"].strip() in text:
            encoded = text.encode()
            learned = b"".join(encoded[start:end] for start, end in spans).decode()
            assert messages[-1]["content"].strip() in learned


def test_qwen3_gives_an_empty_thought_to_the_last_answer_only() -> None:
    ours = recipe(BUILTIN["qwen3"])
    messages = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "<think>\nold\n</think>\n\n2"},
        {"role": "user", "content": "3"},
        {"role": "assistant", "content": "4"},
    ]
    assert ours.render(json.dumps(messages), False)[0] == (
        "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n"
        "<|im_start|>user\n3<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n4<|im_end|>\n"
    )


GENERATION = (
    "{%- for message in messages %}\n"
    "    {%- if message.role == 'assistant' %}\n"
    "        {{- '<|im_start|>assistant\\n' }}\n"
    "        {%- generation %}\n"
    "        {{- message.content + '<|im_end|>' }}\n"
    "        {%- endgeneration %}\n"
    "        {{- '\\n' }}\n"
    "    {%- else %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def test_generation_blocks_say_what_is_learned(workshop: Workshop) -> None:
    coder = Tokenizer(Tokenizer.compile((workshop.base / "tokenizer.json").read_bytes()))
    messages = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "3"},
        {"role": "assistant", "content": "four"},
    ]
    expected, indices = render_jinja_template(
        conversations=[messages], chat_template=GENERATION, return_assistant_tokens_mask=True
    )
    text, spans, _, _ = recipe(GENERATION, train_on="assistant").show(
        json.dumps({"messages": messages}), coder
    )
    assert text == expected[0]
    assert spans == [tuple(pair) for pair in indices[0]]
    _, last, _, _ = recipe(GENERATION).show(json.dumps({"messages": messages}), coder)
    assert last == spans[-1:]


def test_every_assistant_turn_is_learned_where_that_is_asked(workshop: Workshop) -> None:
    messages = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "assistant"},
        {"role": "assistant", "content": "four"},
    ]
    path = workshop.jsonl([{"messages": messages}])
    every = workshop.build(path, {**PLAIN, "recipe.data.train_on": "assistant"})
    assert texts(workshop, every)[0][1] == "two<|im_end|>\nfour<|im_end|>\n"
    last = workshop.build(path, PLAIN)
    assert texts(workshop, last)[0][1] == "four<|im_end|>\n"
    everything = workshop.build(path, {**PLAIN, "recipe.data.train_on": "all"})
    assert texts(workshop, everything)[0][1] == texts(workshop, everything)[0][0]


# A generation prompt that has more than the history shows, as in templates of thinking models.
THINKING = (
    "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}"
    "{% if m.role == 'assistant' %}{{ '<|im_end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|><think>' }}{% endif %}"
)


def said(*contents: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]


def test_an_answer_whose_words_the_question_has_is_learned_and_not_the_question(workshop: Workshop) -> None:
    template = {
        "recipe.template": {"kind": "custom", "source": THINKING},
        "recipe.data.train_on": "assistant",
    }
    rows = [
        {"messages": said("yes or no?", "yes", "no or yes?", "no", "thanks", "bye")},
        {"messages": said("end", "assistant", "user", "s", "im", "end")},
    ]
    cache = workshop.build(workshop.jsonl(rows), {**PLAIN, **template})
    learned = [learned for _, learned in texts(workshop, cache)]
    assert learned == [
        "yes<|im_end|>no<|im_end|>bye<|im_end|>",
        "assistant<|im_end|>s<|im_end|>end<|im_end|>",
    ]


def test_a_thought_that_the_template_leaves_out_of_the_history_costs_no_answer(
    workshop: Workshop, tmp_path: Path
) -> None:
    source = (Path(__file__).parent / "templates" / "qwen3.jinja").read_text()
    workshop.base = write_base(tmp_path / "base", llama3_like(), source)
    row = {"messages": said("1", "<think>\nold\n</think>\n\ntwo", "3", "four")}
    changes = {**PLAIN, "recipe.data.train_on": "assistant"}
    [(_, learned)] = texts(workshop, workshop.build(workshop.jsonl([row]), changes))
    assert learned == "two<|im_end|><think>\n\n</think>\n\nfour<|im_end|>\n"


BEGINNINGS = ["    y = x + 1\n    return y", "\nTwo", "\n\n  Two", " one", "\t- tab", ")", "'s", "A"]


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_a_row_has_the_tokens_of_the_prompt_and_then_those_of_the_answer(
    name: str, workshop: Workshop
) -> None:
    tokenizer_json = (workshop.base / "tokenizer.json").read_bytes()
    coder, oracle = Tokenizer(Tokenizer.compile(tokenizer_json)), oracle_coder(tokenizer_json).work
    ours = recipe(BUILTIN[name])
    for answer in BEGINNINGS:
        messages = said("def f(x):", answer)
        row = json.dumps({"messages": messages})
        text, _, ids, learned = ours.show(row, coder)
        assert ours.show(row, oracle)[2:] == (ids, learned)
        prompt = ours.render(json.dumps(messages[:-1]), True)[0]
        assert text.startswith(prompt)
        asked, told = coder.encode([prompt, text[len(prompt) :]])
        assert ids == asked + told
        assert learned == [False] * len(asked) + [True] * len(told)


def test_every_learned_answer_is_encoded_apart_and_others_are_not(workshop: Workshop) -> None:
    tokenizer_json = (workshop.base / "tokenizer.json").read_bytes()
    coder, oracle = Tokenizer(Tokenizer.compile(tokenizer_json)), oracle_coder(tokenizer_json).work
    row = json.dumps({"messages": said("one", "\n  two", "three", "\n  four")})
    asked = "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n"
    answers = [f"\n  {word}<|im_end|>\n" for word in ("two", "four")]
    parts = {
        "assistant": [asked % "one", answers[0] + asked % "three", answers[1]],
        "completions": [asked % "one" + answers[0] + asked % "three", answers[1]],
        "all": [asked % "one" + answers[0] + asked % "three" + answers[1]],
    }
    for train_on, texts_apart in parts.items():
        ours = recipe(BUILTIN["chatml"], train_on=train_on)
        _, _, ids, learned = ours.show(row, coder)
        assert ids == [i for part in coder.encode(texts_apart) for i in part]
        assert ours.show(row, oracle)[2:] == (ids, learned)


def test_rows_of_the_experts_keep_the_ids_of_their_whole_text() -> None:
    coder = Tokenizer(Tokenizer.compile(smollm2().to_str().encode()))
    ours = recipe(BUILTIN["chatml"], max_seq_length=1 << 20)
    files = sorted((Path(__file__).parents[3] / "experts").glob("*/datasets/*.jsonl"))
    assert len(files) >= 4
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for row in itertools.islice(lines, 200):
                text, _, ids, _ = ours.show(row, coder)
                assert ids == coder.encode([text])[0]


@pytest.mark.parametrize("name", ["mistral", "vicuna", "deepseek", "alpaca"])
def test_a_message_that_the_template_does_not_print_is_refused(workshop: Workshop, name: str) -> None:
    row = {
        "messages": [*said("hi"), {"role": "tool", "content": "42 C"}, {"role": "assistant", "content": "42"}]
    }
    template = {"recipe.template": {"kind": "custom", "source": BUILTIN[name]}}
    with pytest.raises(BadInput, match='does not print message 2, whose role is "tool"'):
        workshop.build(workshop.jsonl([row]), {**PLAIN, **template})
    rest = workshop.jsonl([row, {"messages": said("hi", "you")}])
    cache = workshop.build(rest, {**PLAIN, **template, "recipe.data.on_bad_row": "skip"})
    assert (cache.ledger()["used"], cache.ledger()["bad"]) == (1, 1)


def test_nothing_follows_the_last_answer(workshop: Workshop) -> None:
    messages = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "unanswered"},
    ]
    cache = workshop.build(workshop.jsonl([{"messages": messages}]), PLAIN)
    assert "unanswered" not in texts(workshop, cache)[0][0]


def test_an_answer_without_eos_gets_one(workshop: Workshop) -> None:
    template = {
        "recipe.template": {"kind": "custom", "source": "{% for m in messages %}{{ m.content }}|{% endfor %}"}
    }
    cache = workshop.build(workshop.jsonl([{"prompt": "Q", "completion": "A"}]), {**PLAIN, **template})
    assert texts(workshop, cache) == [("Q|A|<|im_end|>", "A|<|im_end|>")]


def test_a_template_without_an_assistant_part_is_an_error(workshop: Workshop) -> None:
    source = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
    with pytest.raises(BadInput, match="leaves the assistant's message out"):
        workshop.build(
            workshop.jsonl([{"prompt": "Q", "completion": "A"}]),
            {"recipe.template": {"kind": "custom", "source": source}},
        )


def test_a_template_that_cannot_be_read_is_an_error(workshop: Workshop) -> None:
    with pytest.raises(BadInput, match="chat template cannot be read"):
        workshop.build(
            workshop.jsonl([{"prompt": "Q", "completion": "A"}]),
            {"recipe.template": {"kind": "custom", "source": "{% for m in %}"}},
        )


def test_a_template_may_refuse_a_row(workshop: Workshop) -> None:
    source = "{{ raise_exception('Only questions about ' + messages[0].role) }}"
    with pytest.raises(BadInput, match=r"train\.jsonl:1: .*Only questions about user"):
        workshop.build(
            workshop.jsonl([{"prompt": "Q", "completion": "A"}]),
            {"recipe.template": {"kind": "custom", "source": source}},
        )


@pytest.mark.parametrize(
    "value",
    [{"b": [1, 2.5, 1e20, 1e-7, True, None], "a": "é\"\\\n\x7f<&>'"}, [], {}, "text", [[{"x": {}}]]],
    ids=str,
)
@pytest.mark.parametrize(
    "call", ["tojson", "tojson(indent=2)", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)"]
)
def test_tojson_writes_what_python_writes(value: Any, call: str) -> None:
    template = "{% for m in messages %}{{ m.data | " + call + " }}{% endfor %}"
    messages = [{"role": "user", "content": "", "data": value}]
    assert recipe(template).render(json.dumps(messages), False)[0] == reference(template, messages)


def test_tools_reach_the_template(workshop: Workshop) -> None:
    source = "{% for t in tools or [] %}<{{ t.name }}>{% endfor %}" + CHATML
    row = {
        "messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}],
        "tools": [{"name": "t1"}],
    }
    changes = {**PLAIN, "recipe.template": {"kind": "custom", "source": source}}
    cache = workshop.build(workshop.jsonl([row]), changes)
    assert texts(workshop, cache)[0][0].startswith("<t1><|im_start|>user\nQ")
    assert texts(workshop, cache)[0][1] == "A<|im_end|>\n"


def test_a_base_without_a_template_gets_chatml_with_a_warning(workshop: Workshop) -> None:
    workshop.base = write_base(workshop.folder / "bare", llama3_like(), template=None)
    cache = workshop.build(workshop.jsonl([{"prompt": "Q", "completion": "A"}]), PLAIN)
    assert cache.template == BUILTIN["chatml"]
    assert "no-chat-template" in {getattr(line, "code", None) for line in workshop.said}


PYTHON_WORDS = [
    "{{ messages[0].content.split('b')[-1].strip() }}",
    "{{ messages[0].content.upper().replace('A', 'x').startswith('x') }}",
    "{{ messages[0].content.rstrip('b ').lstrip() ~ messages[0]['role'].title() }}",
    "{{ messages[0].items() | list | length }}{{ messages[0].get('name', 'none') }}",
    "{%- set ns = namespace(n=0) %}"
    "{% for m in messages[::-1] %}{% set ns.n = ns.n + loop.index0 %}{% endfor %}"
    "{{ ns.n }}{{ messages[1:] | map(attribute='role') | join(',') }}",
    "{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.content | trim }}{% endfor %}",
]


@pytest.mark.parametrize("template", PYTHON_WORDS)
def test_what_templates_borrow_from_python(template: str) -> None:
    messages = [{"role": "user", "content": " a b ab "}, {"role": "assistant", "content": "c"}]
    assert recipe(template).render(json.dumps(messages), False)[0] == reference(template, messages)


def test_today_is_always_the_same_day() -> None:
    template = "{{ strftime_now('%d %b %Y, %A %B %m %y') }}"
    assert recipe(template).render("[]", False)[0] == "26 Jul 2024, Friday July 07 24"


@pytest.mark.parametrize(
    ("kind", "unknown"),
    [
        ("chatml", ""),
        ("alpaca", ""),
        ("tokenizer", ""),
        ("llama", "<|start_header_id|>, <|end_header_id|>, <|eot_id|>"),
        ("gemma", "<start_of_turn>, <end_of_turn>"),
        ("deepseek", "<｜User｜>, <｜Assistant｜>"),
    ],
)
def test_a_template_whose_markers_the_tokenizer_lacks_is_a_warning(
    workshop: Workshop, kind: str, unknown: str
) -> None:
    row = {"prompt": "Q", "completion": "A"}
    workshop.build(workshop.jsonl([row]), {"recipe.template": {"kind": kind, "source": None}})
    said = [line.message for line in workshop.said if getattr(line, "code", "") == "template-tokens"]
    assert len(said) == bool(unknown)
    assert all(f"no token for {unknown} of the template {kind}" in message for message in said)


def test_markers_of_a_custom_template_that_the_tokenizer_lacks_are_named(workshop: Workshop) -> None:
    source = (
        "{% for m in messages %}<|my_{{ m.role }}|>{{ m.content }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|my_assistant|>{% endif %}"
    )
    row = {"prompt": "Q", "completion": "A"}
    workshop.build(workshop.jsonl([row]), {"recipe.template": {"kind": "custom", "source": source}})
    [said] = [line.message for line in workshop.said if getattr(line, "code", "") == "template-tokens"]
    assert "no token for <|my_assistant|>, <|my_user|> of the template custom" in said


WITHOUT_PROMPT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
ROWS = [{"prompt": "Q", "completion": "A"}]


def test_a_custom_template_without_a_prompt_for_answers_is_refused_with_the_line_it_lacks(
    workshop: Workshop,
) -> None:
    custom = {"recipe.template": {"kind": "custom", "source": WITHOUT_PROMPT}}
    with pytest.raises(BadInput, match="prints the same with and without add_generation_prompt") as said:
        workshop.build(workshop.jsonl(ROWS), {**PLAIN, **custom})
    assert said.value.code == "no-generation-prompt"
    line = (said.value.hint or "").removeprefix("Add at its end: ")
    custom = {"recipe.template": {"kind": "custom", "source": WITHOUT_PROMPT + line}}
    assert texts(workshop, workshop.build(workshop.jsonl(ROWS), {**PLAIN, **custom})) == [
        (turn("Q", "A"), "A<|im_end|>\n")
    ]
    # Nothing but a space stands before the answer.
    plain = {
        "recipe.template": {"kind": "custom", "source": "{% for m in messages %}{{ m.content }} {% endfor %}"}
    }
    workshop.build(workshop.jsonl(ROWS), {**PLAIN, **plain})


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("m.content | shorten", "filter shorten is unknown"),
        ("shorten(m.content)", "shorten is unknown"),
        ("m.content.shorten()", "string has no method named shorten"),
        ("m.name.first.letter", "undefined value"),
    ],
)
@pytest.mark.parametrize("on_bad_row", ["error", "skip"])
def test_an_error_that_every_row_meets_is_the_templates(
    workshop: Workshop, expression: str, why: str, on_bad_row: str
) -> None:
    source = "{% for m in messages %}\n{{ " + expression + " }}\n{% endfor %}"
    custom = {"recipe.template": {"kind": "custom", "source": source}, "recipe.data.on_bad_row": on_bad_row}
    with pytest.raises(BadInput) as said:
        workshop.build(workshop.jsonl([*ROWS, {"prompt": "P", "completion": "B"}]), {**PLAIN, **custom})
    assert said.value.code == "template-damaged"
    assert said.value.message == f"The custom chat template fails with every row: {why} (template line 2)"


def test_an_unknown_name_is_refused_before_a_row_is_read(workshop: Workshop) -> None:
    custom = {"recipe.template": {"kind": "custom", "source": "{{ shorten(messages) }}"}}
    with pytest.raises(BadInput, match="shorten is unknown"):
        workshop.build(workshop.folder / "absent.jsonl", {**PLAIN, **custom})


@pytest.mark.parametrize(
    "source",
    [
        # Refuses what it does not know, whatever rows there are.
        "{% for m in messages %}{{ raise_exception('no ' + m.role) }}{% endfor %}",
        # Fails with one of two rows.
        "{% for m in messages %}{{ m.content.shorten() if m.content == 'Q' else m.content }}{% endfor %}",
    ],
)
def test_rows_that_the_template_refuses_are_broken_rows(workshop: Workshop, source: str) -> None:
    custom = {"recipe.template": {"kind": "custom", "source": source}}
    with pytest.raises(BadInput) as said:
        workshop.build(workshop.jsonl([*ROWS, {"prompt": "P", "completion": "B"}]), {**PLAIN, **custom})
    assert said.value.code == "bad-rows"


def test_a_custom_template_without_a_prompt_for_answers_is_warned_of_where_all_is_learned(
    workshop: Workshop,
) -> None:
    changes = {
        "recipe.template": {"kind": "custom", "source": WITHOUT_PROMPT},
        "recipe.data.train_on": "all",
    }
    assert texts(workshop, workshop.build(workshop.jsonl(ROWS), {**PLAIN, **changes})) == [
        (turn("Q", "A"), turn("Q", "A"))
    ]
    [said] = [line for line in workshop.said if getattr(line, "code", "") == "no-generation-prompt"]
    assert "answers of evaluate, generate and serve begin with it" in said.message
    assert said.hint.startswith("Add at its end: ")


def test_a_bases_template_without_a_prompt_for_answers_is_warned_of(workshop: Workshop) -> None:
    workshop.base = write_base(workshop.folder / "own", llama3_like(), template=WITHOUT_PROMPT)
    workshop.build(workshop.jsonl(ROWS), PLAIN)
    codes = [getattr(line, "code", None) for line in workshop.said]
    assert codes.count("no-generation-prompt") == 1


def test_thoughts_that_the_template_does_not_print_are_warned_of(workshop: Workshop) -> None:
    answer = {"role": "assistant", "content": "A", "reasoning_content": "because"}
    rows = [{"messages": [{"role": "user", "content": "Q"}, answer]}] * 2
    workshop.build(workshop.jsonl(rows), PLAIN)
    [said] = [line.message for line in workshop.said if getattr(line, "code", "") == "reasoning-not-learned"]
    assert said == (
        '2 rows of train.jsonl: the chat template does not print "reasoning_content", so answers are learned '
        "without it"
    )


def test_a_name_that_only_other_rows_reach_does_not_refuse_the_template(workshop: Workshop) -> None:
    source = "{% if messages[0].role != 'system' %}{{ default_system() }}{% endif %}" + CHATML
    rows = [{"system": "Be brief.", "prompt": "Q", "completion": "A"}]
    custom = {**PLAIN, "recipe.template": {"kind": "custom", "source": source}}
    assert workshop.build(workshop.jsonl(rows), custom).ledger()["used"] == 1
    with pytest.raises(BadInput, match="default_system is unknown"):
        workshop.build(workshop.jsonl(ROWS), custom)
