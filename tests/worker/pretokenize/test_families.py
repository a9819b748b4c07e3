"""Templates in the formats of well-known bases, with and without `{% generation %}`.

The fast encoder takes them, and its text, ids and mask are those of transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
from pretokenize.bases import llama3_like, write_base
from pretokenize.test_template import dialogues, recipe
from pretokenize.workshop import Workshop
from tokenizers import Tokenizer as Reference
from transformers.utils import chat_template_utils

from expert_worker._native import Recipe, Tokenizer
from expert_worker.pretokenize.exactness import FixedDay, texts_differ
from expert_worker.pretokenize.vocabulary import read_vocabulary

TEMPLATES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "templates").glob("*.jinja"))
}
MARKED = sorted(
    name for name, text in TEMPLATES.items() if "generation %}" in text or "generation -%}" in text
)
Message = dict[str, str]


@pytest.fixture(autouse=True)
def fixed_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template_utils, "datetime", FixedDay)


def theirs(template: str, messages: list[Message], **options: Any) -> tuple[str, list[tuple[int, int]]]:
    texts, spans = chat_template_utils.render_jinja_template(
        conversations=[messages],
        chat_template=template,
        return_assistant_tokens_mask="generation" in template,
        bos_token="<s>",
        eos_token="</s>",
        **options,
    )
    return str(texts[0]), [(start, end) for start, end in (spans[0] if spans else [])]


def characters(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    encoded = text.encode()
    return [(len(encoded[:start].decode()), len(encoded[:end].decode())) for start, end in spans]


def coder(workshop: Workshop) -> Tokenizer:
    return Tokenizer(Tokenizer.compile((workshop.base / "tokenizer.json").read_bytes()))


def show(ours: Recipe, row: str, tokens: Tokenizer) -> Any:
    """The row as it is learned, or why it is not."""
    try:
        return ours.show(row, tokens)
    except ValueError as error:
        return str(error)


def accepted(template: str) -> list[list[Message]]:
    """Dialogues that the template does not refuse."""
    out = []
    for messages in dialogues():
        try:
            theirs(template, messages)
        except Exception:  # Roles that must alternate, say: jinja2 raises what the template asks for.
            continue
        out.append(messages)
    assert len(out) > 90
    return out


def test_both_kinds_are_here() -> None:
    assert len(MARKED) >= 6 and len(TEMPLATES) - len(MARKED) >= 5


@pytest.mark.parametrize("name", TEMPLATES)
def test_text_and_generated_parts_are_those_of_transformers(name: str, workshop: Workshop) -> None:
    template, tokens = TEMPLATES[name], coder(workshop)
    fast = recipe(template, train_on="assistant")
    slow = recipe(template, train_on="assistant", interpret=True)
    for messages in accepted(template):
        row = json.dumps({"messages": messages})
        shown = show(fast, row, tokens)
        assert shown == show(slow, row, tokens)
        if isinstance(shown, str):
            assert "nothing to learn" in shown or "no answer" in shown, shown
            continue
        text, spans, _, _ = shown
        expected, generated = theirs(template, messages)
        assert text == expected
        if name in MARKED:
            assert characters(text, spans) == generated and generated
        prompt, _ = theirs(template, messages[:-1], add_generation_prompt=True)
        assert fast.render(json.dumps(messages[:-1]), True)[0] == prompt


@pytest.mark.parametrize("name", MARKED)
def test_the_mask_is_that_of_transformers_token_by_token(name: str, workshop: Workshop) -> None:
    reference = Reference.from_file(str(workshop.base / "tokenizer.json"))
    tokens = coder(workshop)
    for messages in accepted(TEMPLATES[name])[:40]:
        if not all(message["content"].isascii() for message in messages):
            continue  # A character of several tokens belongs to none of them in offsets.
        row = json.dumps({"messages": messages})
        _, _, ids, learned = recipe(TEMPLATES[name], train_on="assistant").show(row, tokens)
        text, generated = theirs(TEMPLATES[name], messages)
        encoded = reference.encode(text, add_special_tokens=False)
        mask = [any(start <= at < end for start, end in generated) for at, _ in encoded.offsets]
        assert (ids, learned) == (encoded.ids, mask)


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_fast_encoder_takes_them(name: str, workshop: Workshop, tmp_path: Path) -> None:
    workshop.base = write_base(tmp_path / "base", llama3_like(), TEMPLATES[name], bos_token="<s>")
    assert texts_differ(read_vocabulary(workshop.base), TEMPLATES[name]) is None


def test_generated_parts_reach_the_cache_by_the_fast_encoder(workshop: Workshop, tmp_path: Path) -> None:
    workshop.base = write_base(tmp_path / "base", llama3_like(), TEMPLATES["qwen3-training"])
    rows = [{"prompt": f"Question {n}", "completion": f"Answer {n}"} for n in range(120)]
    cache = workshop.build(workshop.jsonl(rows), {"recipe.batch.packing": False})
    assert cache.description.encoder == "native"
    codes = {getattr(line, "code", None) for line in workshop.said}
    assert not codes & {"tokenizer-fallback", "template-interpreted"}
    ids, labels, _ = cache.train.row(7)
    reference = Reference.from_file(str(workshop.base / "tokenizer.json"))
    learned = [label for label in labels.tolist() if label >= 0]
    assert reference.decode(learned, skip_special_tokens=False) == "<think>\n\n</think>\n\nAnswer 7<|im_end|>"
    assert len(learned) < len(ids)


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_answer_that_is_not_to_be_learned_leaves_the_text_and_the_other_answers(
    name: str, workshop: Workshop
) -> None:
    tokens = coder(workshop)
    learns_each, interprets, learns_last = (
        recipe(TEMPLATES[name], **options)
        for options in (
            {"train_on": "assistant"},
            {"train_on": "assistant", "interpret": True},
            {"train_on": "completions"},
        )
    )
    dialogue = [
        {"role": role, "content": f"{role} said {at}, the same"}
        for at in range(3)
        for role in ("user", "assistant")
    ]

    def without(*places: int) -> list[Message]:
        return [{**turn, "weight": 0} if at in places else turn for at, turn in enumerate(dialogue)]  # type: ignore[dict-item]

    def parts(shown: Any) -> tuple[str, list[str]]:
        text, spans, *_ = shown
        return text, [text.encode()[start:end].decode() for start, end in spans]

    whole = json.dumps({"messages": dialogue})
    text, learned = parts(learns_each.show(whole, tokens))
    starts = [next(i for i, part in enumerate(learned) if f"assistant said {at}" in part) for at in range(3)]
    assert starts == sorted(set(starts))
    answers = [learned[0 : starts[1]], learned[starts[1] : starts[2]], learned[starts[2] :]]
    if name in MARKED and len(learned) > 3:
        # The parts of a turn are up to its answer.
        answers = [learned[: starts[0] + 1], learned[starts[0] + 1 : starts[1] + 1], learned[starts[1] + 1 :]]
    for gone in ({1}, {3}, {1, 3}):
        row = json.dumps({"messages": without(*gone)})
        shown = learns_each.show(row, tokens)
        left = [part for at, answer in enumerate(answers) if 2 * at + 1 not in gone for part in answer]
        assert parts(shown) == (text, left), gone
        assert shown == interprets.show(row, tokens)
        assert learns_last.show(row, tokens) == learns_last.show(whole, tokens)
    # After the last answer that is learned, nothing is.
    shorter = json.dumps({"messages": dialogue[:4]})
    for ours in (learns_each, interprets, learns_last):
        assert ours.show(json.dumps({"messages": without(5)}), tokens) == ours.show(shorter, tokens)


ODD = {
    "begins with the answer": ["assistant!", "user", "assistant"],
    "after a thought that is dropped": ["user", "assistant?", "tool", "assistant!", "user", "assistant"],
}


@pytest.mark.parametrize("roles", ODD.values(), ids=ODD)
def test_an_answer_that_is_not_to_be_learned_is_found_where_a_template_renders_parts_otherwise(
    roles: list[str], workshop: Workshop
) -> None:
    tokens, tried = coder(workshop), 0
    dialogue = [
        {
            "role": role.rstrip("!?"),
            "content": f"{'<think>hm</think>' if role.endswith('?') else ''}said {at}",
            **({"weight": 0} if role.endswith("!") else {}),
        }
        for at, role in enumerate(roles)
    ]
    whole = [{key: turn[key] for key in ("role", "content")} for turn in dialogue]
    (gone,) = (at for at, role in enumerate(roles) if role.endswith("!"))
    for template in TEMPLATES.values():
        ours = recipe(template, train_on="assistant")
        every = show(ours, json.dumps({"messages": whole}), tokens)
        if isinstance(every, str):
            continue  # The template refuses such roles.
        tried += 1
        text, spans, *_ = show(ours, json.dumps({"messages": dialogue}), tokens)
        assert text == every[0]
        learned = [[text.encode()[start:end].decode() for start, end in found] for found in (every[1], spans)]
        assert any(f"said {gone}" in part for part in learned[0])
        assert learned[1] == [part for part in learned[0] if f"said {gone}" not in part]
    assert tried > 3


def test_a_turn_of_several_generated_parts_is_learned_whole(workshop: Workshop) -> None:
    messages = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "<think>\nold\n</think>\n\ntwo"},
        {"role": "user", "content": "3"},
        {"role": "assistant", "content": "<think>\nnew\n</think>\n\nfour"},
    ]
    row = json.dumps({"messages": messages})
    text, spans, _, _ = recipe(TEMPLATES["gpt-oss-training"]).show(row, coder(workshop))
    parts = [text.encode()[start:end].decode() for start, end in spans]
    assert parts == ["<|channel|>analysis<|message|>new<|end|>", "<|channel|>final<|message|>four<|return|>"]


def test_the_end_of_a_turn_is_learned_where_the_block_ends_before_it(workshop: Workshop) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    )
    messages = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    text, spans, _, _ = recipe(template).show(json.dumps({"messages": messages}), coder(workshop))
    assert [text.encode()[start:end].decode() for start, end in spans] == ["A<|im_end|>"]


def test_what_a_generation_block_sets_stays_inside(workshop: Workshop) -> None:
    template = (
        "{% set x = 'out' %}{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}"
        "{% set x = 'in' %}{{ x + m.content }}{% endgeneration %}{{ x }}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    messages = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    text, spans = theirs(template, messages)
    mine, found = recipe(template).render(json.dumps(messages), False)
    assert (mine, found) == (text, spans) == ("QinAout", [(1, 4)])
