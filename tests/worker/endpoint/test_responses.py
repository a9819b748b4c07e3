"""`/v1/responses`, asked by OpenAI's own client, in front of an engine that does what a test needs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from aiohttp.test_utils import TestServer
from endpoint.test_server import LIMITS, FakeEngine, server
from pydantic import BaseModel

from expert_worker.endpoint.bodies import parse
from expert_worker.endpoint.engine import EngineFailed, GrammarRefused, Piece, Question
from expert_worker.endpoint.refusals import Refused
from expert_worker.endpoint.responses import ResponsesBody
from expert_worker.endpoint.server import Server

ASKED = {"model": "ash", "input": "hi"}


class Ready(FakeEngine):
    """Does not wait between its letters; a full stop in them cuts the answer."""

    async def answer(self, question: Question) -> Any:
        self.asked.append(question)
        letters = self.letters.removesuffix(".")
        for place, letter in enumerate(letters, 1):
            if letter == "!":
                raise EngineFailed("it broke")
            if letter == "#":
                raise GrammarRefused("it has no such form")
            yield Piece(letter, place)
        yield Piece("", len(letters), "length" if self.letters.endswith(".") else "stop")


@asynccontextmanager
async def listening(engine: FakeEngine) -> AsyncIterator[tuple[Server, openai.AsyncOpenAI]]:
    one = server(engine, LIMITS)
    async with TestServer(one.application()) as listener:
        url = str(listener.make_url("/v1"))
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            yield one, client


def asking(test: Callable[[Any], Awaitable[None]], letters: str = "abc") -> Ready:
    engine = Ready(letters)

    async def run() -> None:
        async with listening(engine) as (_, client):
            await asyncio.wait_for(test(client), 20)

    asyncio.run(run())
    return engine


def prompts(*inputs: dict[str, Any]) -> list[list[int]]:
    """What the engine reads for each request."""

    async def test(client: openai.AsyncOpenAI) -> None:
        for more in inputs:
            await client.responses.create(**{"model": "ash", **more})

    return [list(question.prompt) for question in asking(test).asked]


def chat_prompt(messages: list[dict[str, str]]) -> list[int]:
    async def test(client: openai.AsyncOpenAI) -> None:
        await client.chat.completions.create(model="ash", messages=messages)  # type: ignore[arg-type]

    return list(asking(test).asked[0].prompt)


def test_an_answer_has_text_status_and_usage() -> None:
    async def test(client: openai.AsyncOpenAI) -> None:
        found = await client.responses.create(**ASKED, max_output_tokens=5, metadata={"a": "b"})  # type: ignore[call-overload]
        assert found.output_text == "abc" and found.status == "completed" and found.model == "ash"
        assert found.usage.output_tokens == 3
        assert found.usage.total_tokens == found.usage.input_tokens + 3
        assert (found.max_output_tokens, found.metadata, found.error) == (5, {"a": "b"}, None)
        # Those of the expert, as the request has none.
        assert (found.temperature, found.top_p, found.store) == (0.5, 1.0, False)

    assert asking(test).asked[0].most_tokens == 5


def test_an_answer_that_its_limit_cuts_is_incomplete() -> None:
    async def test(client: openai.AsyncOpenAI) -> None:
        found = await client.responses.create(**ASKED)  # type: ignore[call-overload]
        assert found.status == "incomplete" and found.incomplete_details.reason == "max_output_tokens"
        assert found.output_text == "abc" and found.output[0].status == "incomplete"
        events = [event async for event in await client.responses.create(**ASKED, stream=True)]  # type: ignore[call-overload]
        assert events[-1].type == "response.incomplete" and events[-1].response.output_text == "abc"

    asking(test, "abc.")


def test_the_same_prompt_as_a_conversation_of_chat() -> None:
    earlier = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "yes", "annotations": [], "logprobs": []}],
    }
    conversation = [
        {"role": "user", "content": [{"type": "input_text", "text": "one"}]},
        earlier,
        {"type": "message", "role": "user", "content": "two"},
    ]
    single, several, developer = prompts(
        {"input": "hi"},
        {"input": conversation, "instructions": "shout"},
        {"input": [{"role": "developer", "content": "shout"}, *conversation]},
    )
    assert single == chat_prompt([{"role": "user", "content": "hi"}])
    messages = [("system", "shout"), ("user", "one"), ("assistant", "yes"), ("user", "two")]
    as_chat = chat_prompt([{"role": role, "content": text} for role, text in messages])
    assert several == developer == as_chat


def test_an_earlier_answer_is_an_item_of_the_next_request() -> None:
    async def test(client: openai.AsyncOpenAI) -> None:
        first = await client.responses.create(**ASKED)  # type: ignore[call-overload]
        said = [{"role": "user", "content": "hi"}, *first.output, {"role": "user", "content": "more"}]
        await client.responses.create(model="ash", input=said)

    roles = [("user", "hi"), ("assistant", "abc"), ("user", "more")]
    whole = chat_prompt([{"role": role, "content": text} for role, text in roles])
    assert list(asking(test).asked[1].prompt) == whole


def test_a_stream_has_the_events_that_clients_of_openai_build_the_answer_of() -> None:
    async def test(client: openai.AsyncOpenAI) -> None:
        async with client.responses.stream(model="ash", input="hi") as stream:
            events = [event async for event in stream]
            whole = await stream.get_final_response()
        kinds = [event.type for event in events]
        letters = ["response.output_text.delta"] * 3
        assert kinds == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            *letters,
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert whole.output_text == "abc" and whole.usage is not None and whole.usage.output_tokens == 3

    asking(test)


class Shop(BaseModel):
    town: str


def test_a_form_is_asked_for_in_text_format() -> None:
    async def test(client: openai.AsyncOpenAI) -> None:
        found = await client.responses.parse(model="ash", input="hi", text_format=Shop)
        assert found.output_parsed == Shop(town="x")
        given: Any = {"format": {"type": "json_object"}}
        await client.responses.create(model="ash", input="hi", text=given)

    engine = asking(test, '{"town": "x"}')
    schemas = [json.loads(question.grammar.text) for question in engine.asked if question.grammar]
    assert "town" in schemas[0]["properties"] and schemas[1]["type"] == "object"


@pytest.mark.parametrize(
    ("more", "code", "param"),
    [
        ({"previous_response_id": "resp_1"}, "unsupported_field", "previous_response_id"),
        ({"conversation": "conv_1"}, "unsupported_field", "conversation"),
        ({"tools": [{"type": "web_search"}]}, "invalid_value", "tools"),
        ({"store": True}, "invalid_value", "store"),
        ({"background": True}, "invalid_value", "background"),
        ({"reasoning": {"effort": "high"}}, "unsupported_field", "reasoning"),
        ({"truncation": "auto"}, "invalid_value", "truncation"),
        ({"max_output_tokens": 51}, "max_tokens_exceeded", "max_output_tokens"),
        ({"extra_body": {"max_tokens": 5}}, "unsupported_field", "max_tokens"),
        ({"input": "hi " * 200}, "context_length_exceeded", "input"),
        ({"input": []}, "invalid_value", "input"),
        ({"input": [{"type": "function_call_output", "call_id": "a", "output": "b"}]}, None, None),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, None, None),
        ({"text": {"format": {"type": "grammar"}}}, "invalid_value", "text.format"),
        (
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"maxLength": 5000}}}},
            "unsupported_schema",
            "text.format",
        ),
        ({"model": "oak"}, "model_not_found", "model"),
    ],
)
def test_what_would_change_the_answer_is_refused(
    more: dict[str, Any], code: str | None, param: str | None
) -> None:
    async def test(client: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.APIStatusError) as refused:
            await client.responses.create(**{**ASKED, **more})
        if code is not None:
            assert (refused.value.code, refused.value.param) == (code, param)
        else:
            assert "only " in refused.value.message and str(refused.value.param).startswith("input.0")

    assert not asking(test).asked


def test_a_list_without_messages_is_refused_as_what_it_is() -> None:
    with pytest.raises(Refused, match="at least 1 item"):
        parse(ResponsesBody, b'{"model": "ash", "input": []}')


def test_what_clients_send_without_an_effect_is_taken() -> None:
    harmless = {
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "store": False,
        "truncation": "disabled",
        "include": ["reasoning.encrypted_content"],
        "text": {"verbosity": "medium"},
        "reasoning": None,
        "previous_response_id": None,
        "prompt_cache_key": "a",
        "service_tier": "auto",
    }
    plain, more = prompts({"input": "hi"}, {"input": "hi", **harmless})
    assert plain == more


def test_an_engine_that_fails_is_an_error_before_the_answer_and_an_event_in_it() -> None:
    async def before(client: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.InternalServerError) as refused:
            await client.responses.create(**ASKED, stream=True)  # type: ignore[call-overload]
        assert refused.value.code == "engine_failed"

    async def within(client: openai.AsyncOpenAI) -> None:
        events = [event async for event in await client.responses.create(**ASKED, stream=True)]  # type: ignore[call-overload]
        last = events[-1]
        assert last.type == "response.failed" and last.response.status == "failed"
        assert last.response.error.code == "engine_failed" and "try again" in last.response.error.message
        assert last.response.output_text == "ab"

    async def form(client: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(**ASKED, text={"format": {"type": "json_object"}})  # type: ignore[call-overload]
        assert refused.value.param == "text.format"

    asking(before, "!")
    asking(within, "ab!")
    asking(form, "#")
