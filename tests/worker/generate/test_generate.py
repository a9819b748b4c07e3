"""What is streamed is what is returned, and nothing that a stop sequence takes back is ever shown."""

import json
from pathlib import Path
from typing import Any

import pytest
from evaluate import tiny
from evaluate.test_decode import bounded
from evaluate.test_evaluate_stage import DECODING, adapted
from plans import example_plan

from expert_worker.errors import BadInput
from expert_worker.evaluate.subject import Subject
from expert_worker.events import Events
from expert_worker.generate.stage import TextEvents, _system_message, prompts, reply
from expert_worker.plan import GenerateRequest

SUBJECT = Subject(adapted(), tiny.tokenizer(), None, True)


def streamed(memory: Any, source: str) -> tuple[str, bool]:
    said = [
        event.body for event in memory.events if event.body.type == "text" and event.body.source == source
    ]
    return "".join(body.text for body in said), said[-1].done


def test_base_and_adapter_are_streamed_and_returned(tmp_path: Path) -> None:
    events, memory = Events.in_memory("generate")
    plan = example_plan(tmp_path, {"recipe.decoding": DECODING})
    answer = reply(plan.recipe, events, SUBJECT, "why")
    assert answer.base != answer.adapter
    for source, text in (("base", answer.base), ("adapter", answer.adapter)):
        assert streamed(memory, source) == (text, True)


def test_an_answer_that_reaches_its_limit_is_said_to_be_cut(tmp_path: Path) -> None:
    for most, cut in ((3, True), (4000, False)):
        events, memory = Events.in_memory("generate")
        decoding = {**DECODING, "max_new_tokens": most}
        recipe = example_plan(tmp_path, {"recipe.decoding": decoding}).recipe
        stream = TextEvents(tiny.tokenizer(), [], events, "base", [0], most)
        stream.put(tiny.torch.tensor([[1]]))
        for token in (40, 41, 42) if cut else (40, 41, 0):
            stream.put(tiny.torch.tensor([token]))
        stream.end()
        assert memory.events[-1].body.cut is cut
        if cut:
            assert reply(recipe, events, SUBJECT, "why").cut == ("base", "adapter")
            done = [event.body for event in memory.events if event.body.type == "text" and event.body.done]
            assert [body.cut for body in done[-2:]] == [True, True]


def test_an_answer_ends_at_the_last_position_of_the_base(tmp_path: Path) -> None:
    subject = Subject(bounded("gpt2"), tiny.tokenizer(), None, False)
    decoding = {**DECODING, "stop_sequences": [], "max_new_tokens": 20}
    recipe = example_plan(tmp_path, {"recipe.decoding": decoding}).recipe
    events, memory = Events.in_memory("generate")
    answer = reply(recipe, events, subject, "x" * 50)
    assert answer.base and answer.cut == ("base",)
    assert streamed(memory, "base") == (answer.base, True)
    with pytest.raises(BadInput, match="has 73 tokens; the base has 64 positions for prompt and answer"):
        reply(recipe, events, subject, "x" * 70)


def test_a_system_message_stands_before_the_prompt(tmp_path: Path) -> None:
    recipe = example_plan(tmp_path, {"recipe.decoding": DECODING}).recipe
    plain, told = (
        reply(recipe, Events.in_memory("generate")[0], SUBJECT, "why", system) for system in (None, "shout")
    )
    rows = [{"role": "system", "content": "shout"}, {"role": "user", "content": "why"}]
    asked = SUBJECT.maker().prompt({"messages": rows})
    assert asked.ids != SUBJECT.maker().prompt({"messages": rows[1:]}).ids
    assert plain.adapter != told.adapter


def test_without_one_the_system_message_of_training_stands_there(tmp_path: Path) -> None:
    (tmp_path / "expert.json").write_text(json.dumps({"format": 1, "system_message": "shout\nloud"}))

    def asked(**request: Any) -> tuple[str | None, list[Any]]:
        events, memory = Events.in_memory("generate")
        found = _system_message(example_plan(tmp_path), GenerateRequest(prompt="why", **request), events)
        return found, [event.body.note for event in memory.events if event.body.type == "applied"]

    assert asked(adapter=str(tmp_path)) == (
        "shout\nloud",
        ["System message of the training rows: shout loud"],
    )
    for own in ("whisper", ""):
        assert asked(adapter=str(tmp_path), system=own) == (own, [])
    assert asked() == (None, []) == asked(adapter=str(tmp_path / "other"))


def test_a_checkpoint_is_asked_as_its_run_is(tmp_path: Path) -> None:
    row = {"system": "shout", "prompt": "why", "completion": "BECAUSE"}
    plan = example_plan(tmp_path, {"recipe.data.train": [{"name": "t", "format": "jsonl", "weight": 1.0}]})
    plan.machine.paths.data["t"] = str(tmp_path / "t.jsonl")
    checkpoint, final = tmp_path / "run" / "checkpoint-2", tmp_path / "run" / "final"
    checkpoint.mkdir(parents=True)

    def asked() -> str | None:
        request = GenerateRequest(prompt="why", adapter=str(checkpoint))
        return _system_message(plan, request, Events.in_memory("generate")[0])

    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    assert asked() is None, "an adapter from elsewhere was trained on other rows"
    (checkpoint / "state.json").write_text("{}")
    assert asked() == "shout", "of the training rows, while there is no final adapter"
    final.mkdir()
    (final / "expert.json").write_text(json.dumps({"format": 1, "system_message": "whisper"}))
    assert asked() == "whisper", "the rows may have been edited since"
    (final / "expert.json").write_text(json.dumps({"format": 1}))
    assert asked() is None


def test_a_stop_sequence_is_never_shown_even_in_part(tmp_path: Path) -> None:
    plan = example_plan(tmp_path, {"recipe.decoding": DECODING})
    whole = str(reply(plan.recipe, Events.in_memory("generate")[0], SUBJECT, "why").adapter)
    stop = whole[2:5]
    events, memory = Events.in_memory("generate")
    short = example_plan(tmp_path, {"recipe.decoding": {**DECODING, "stop_sequences": [stop]}})
    answer = reply(short.recipe, events, SUBJECT, "why")
    assert answer.adapter == whole[: whole.find(stop)]
    assert streamed(memory, "adapter") == (answer.adapter, True)


def test_text_is_held_back_while_a_stop_sequence_may_be_under_way() -> None:
    events, memory = Events.in_memory("generate")
    stream = TextEvents(tiny.tokenizer(), ["END"], events, "base")
    ids = tiny.tokenizer()("abENcENDx")["input_ids"]
    stream.put(tiny.torch.tensor([[1, 2, 3]]))
    for token in ids:
        stream.put(tiny.torch.tensor([token]))
        assert "END" not in streamed_so_far(memory)
    stream.end()
    assert streamed(memory, "base") == ("abENc", True)


def streamed_so_far(memory: Any) -> str:
    return "".join(event.body.text for event in memory.events if event.body.type == "text")


def test_prompts_are_read_a_json_string_a_line() -> None:
    assert list(prompts(['"one\\ntwo"\n', "\n", '"three"'])) == ["one\ntwo", "three"]


@pytest.mark.parametrize("line", ["why", "{}", '"open'])
def test_a_line_that_is_not_a_json_string_is_named(line: str) -> None:
    with pytest.raises(BadInput, match="Line 2 of standard input"):
        list(prompts(['"fine"', line]))
