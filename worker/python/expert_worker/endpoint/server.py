"""The HTTP server: checks a request, waits for a slot, passes the engine's pieces on, counts.

aiohttp, because it is server and client in one package and cancels a handler whose client has left.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from expert_worker.endpoint import access, page
from expert_worker.endpoint.answers import Answer, Choices, Document
from expert_worker.endpoint.bodies import Body, ChatBody, CompletionBody, parse
from expert_worker.endpoint.engine import (
    Engine,
    EngineFailed,
    GrammarRefused,
    Piece,
    PromptRefused,
    Question,
    Sampling,
)
from expert_worker.endpoint.metrics import Metrics
from expert_worker.endpoint.questions import questions_with_tags
from expert_worker.endpoint.refusals import Refused, unknown_model
from expert_worker.endpoint.responses import Response, ResponsesBody
from expert_worker.endpoint.shelf import AUTO, BASE, Model
from expert_worker.endpoint.turns import Turns
from expert_worker.errors import ExpertError
from expert_worker.routing.features import prompt_of
from expert_worker.routing.router import Router

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MOST_BODY_BYTES = 1 << 20
_CANCELLED = 499
_BODY_SECONDS = 30.0
_RETRY_SECONDS = 2
# For the answer to a request that the server cancels as it stops.
LAST_WORD_SECONDS = 1.0


@dataclass(frozen=True)
class Limits:
    parallel: int
    queue: int
    # Of one answer.
    most_tokens: int
    request_seconds: float


class Stream:
    """An answer that is sent piece by piece."""

    def __init__(self, response: web.StreamResponse, answer: Answer) -> None:
        self.response = response
        self._answer = answer

    @classmethod
    async def begin(cls, request: web.Request, answer: Answer) -> Stream:
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        stream = cls(response, answer)
        await stream._send(answer.first())
        return stream

    async def add(self, piece: Piece) -> None:
        if piece.text:
            await self._send(self._answer.piece(piece.text, piece.tokens))
        if piece.finish is not None:
            await self._send(self._answer.last(piece.tokens, piece.finish))
            await self.response.write(self._answer.closing)
            await self.response.write_eof()

    async def fail(self, refused: Refused) -> None:
        await self._send(self._answer.failed(refused))
        await self.response.write_eof()

    async def _send(self, documents: Iterable[Document]) -> None:
        for document in documents:
            # Events of `/v1/responses` have names.
            name = f"event: {document['type']}\n" if "type" in document else ""
            await self.response.write(f"{name}data: {json.dumps(document)}\n\n".encode())


@dataclass
class Call:
    """One request, for the log and the metrics. It never holds text of the user."""

    began: float = field(default_factory=time.monotonic)
    model: str = ""
    prompt_tokens: int = 0
    # Of the prompt, by the model: a request may be refused or fail before.
    read_tokens: int = 0
    tokens: int = 0
    # Once its headers are sent, an error becomes an event of the stream.
    stream: Stream | None = None
    status: int | None = None

    def heard(self, piece: Piece) -> None:
        self.read_tokens, self.tokens = self.prompt_tokens, piece.tokens


class Server:
    def __init__(
        self,
        engine: Engine,
        models: Mapping[str, Model],
        limits: Limits,
        *,
        router: Router | None = None,
        token: str | None = None,
        allowed: Sequence[Path] = (),
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        """With a router, which chooses among `models`, there is the model `auto` too. The page
        shows test questions from the experts' own files and from those in `allowed` folders."""
        self.engine, self.models, self.limits, self.metrics = engine, models, limits, Metrics()
        self._router, self._token, self._allowed, self._log = router, token, allowed, log
        self._turns = Turns(limits.parallel)
        # Tokenizers and templates of one thread at a time, beside the loop.
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self._created = int(time.time())
        self._running: set[asyncio.Task[Any]] = set()
        self._cancels_running = False

    def application(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BODY_BYTES, middlewares=[self._guard])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/responses", self._respond)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_get("/v1/models/{name}", self._show_model)
        app.router.add_get("/v1/models/{name}/questions", self._show_questions)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._show_metrics)
        for path in page.FILES:
            app.router.add_get(path, page.show)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every request passes here: the token, errors in OpenAI's shape, the log."""
        call = request["call"] = Call()
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        status = 500
        try:
            try:
                access.check(request, self._token)
                response = await handler(request)
            except (web.HTTPException, Refused) as error:
                response = _refusal(request, error).response()
            except ExpertError as error:
                response = Refused(400, error.message, code=error.code).response()
            except ConnectionError:
                # The client has left: nobody reads this.
                call.status = _CANCELLED
                response = call.stream.response if call.stream else web.Response(status=_CANCELLED)
            except asyncio.CancelledError:
                if not self._cancels_running:
                    # The client has left.
                    status = _CANCELLED
                    raise
                status = 503
                task.uncancel()
                response = await _refuse(call, Refused(status, "The server stops", code="server_stopped"))
            except Exception as error:
                self._log(f"error: {type(error).__name__} in {_route(request)}: {error}")
                response = Refused(500, "The server failed", code="server_failed").response()
            status = call.status or response.status
            return response
        finally:
            self._note(request, call, status)

    async def finish(self, seconds: float) -> None:
        """Requests that run may finish within the seconds; each that is left is answered with status 503.

        aiohttp's own shutdown has one limit for both of its waits, and closes connections without an answer.
        """
        if not self._running:
            return
        _, left = await asyncio.wait(self._running, timeout=seconds)
        self._cancels_running = True
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=LAST_WORD_SECONDS)

    def _note(self, request: web.Request, call: Call, status: int) -> None:
        seconds = time.monotonic() - call.began
        about = ""
        if request.method == "POST":
            self.metrics.finished(call.model, status, call.read_tokens, call.tokens, seconds)
            about = f" {call.model or '-'} {call.prompt_tokens}+{call.tokens} tokens"
        clock = time.strftime("%H:%M:%S")
        self._log(f"{clock} {request.method} {_route(request)} {status}{about} {seconds:.2f} s")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = parse(ChatBody, await _content(request))
        messages = [message.plain() for message in body.messages]
        model, question = await self._asked(request, body, messages)
        answer = Choices(model.name, True, len(question.prompt), body.includes_usage)
        return await self._answer(request, body, question, answer)

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        body = parse(ResponsesBody, await _content(request))
        model, question = await self._asked(request, body, body.messages)
        answer = Response(body, model.name, len(question.prompt), question.sampling, question.most_tokens)
        return await self._answer(request, body, question, answer)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = parse(CompletionBody, await _content(request))
        model = self._model(request, body.model, body.prompt)
        tokenizer = model.prompts.tokenizer
        ids = await self._beside(lambda: tokenizer(body.prompt, add_special_tokens=False)["input_ids"])
        if not ids:
            raise Refused(400, "The prompt is empty", code="invalid_value", param="prompt")
        question = self._question(request, body, model, list(ids))
        answer = Choices(model.name, False, len(ids), body.includes_usage)
        return await self._answer(request, body, question, answer)

    async def _asked(
        self, request: web.Request, body: Body, messages: list[dict[str, str]]
    ) -> tuple[Model, Question]:
        """A conversation, by the model's template."""
        model = self._model(request, body.model, prompt_of(messages))
        if not model.has_template:
            raise Refused(400, f"{model.name} has no chat template; use /v1/completions", code="no_template")
        ids = await self._beside(lambda: model.prompts.prompt({"messages": model.asked(messages)}).ids)
        return model, self._question(request, body, model, list(ids))

    def _model(self, request: web.Request, name: str, prompt: str) -> Model:
        if name == AUTO and self._router is not None:
            name = self._router.route(prompt).expert or BASE
        model = self.models.get(name)
        if model is None:
            raise unknown_model(name, self._names())
        request["call"].model = model.name
        return model

    async def _beside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._encoder, work)

    async def _answer(
        self, request: web.Request, body: Body, question: Question, answer: Answer
    ) -> web.StreamResponse:
        call: Call = request["call"]
        try:
            async with (
                asyncio.timeout(self.limits.request_seconds),
                self._slot(question),
                aclosing(self.engine.answer(question)) as pieces,
            ):
                if body.stream:
                    return await _stream(request, answer, pieces, call)
                return await _whole(answer, pieces, call)
        except (EngineFailed, Refused, TimeoutError) as error:
            form = body.forms if body.grammar is not None else None
            return await _refuse(call, self._in_words(error, form))

    def _in_words(self, error: Exception, form: str | None) -> Refused:
        """`form` is the field of a request that asks for one."""
        if isinstance(error, Refused):
            return error
        if isinstance(error, TimeoutError):
            limit = self.limits.request_seconds
            return Refused(504, f"There was no whole answer within {limit:g} seconds", code="timeout")
        if isinstance(error, GrammarRefused) and form is not None:
            message = f"An answer in this form cannot be written: {error}"
            return Refused(400, message, code="unsupported_schema", param=form)
        if isinstance(error, GrammarRefused):
            # The rules of some grammars are of the names in the prompt.
            message = f"The model's own grammar does not work for this prompt: {error}"
            return Refused(400, message, code="unsupported_grammar")
        if isinstance(error, PromptRefused):
            return Refused(400, str(error), code="unsupported_token")
        self._log(f"error: {error}")
        return Refused(503, "The engine failed; try again", code="engine_failed")

    def _question(self, request: web.Request, body: Body, model: Model, ids: list[int]) -> Question:
        request["call"].prompt_tokens = len(ids)
        context = self.engine.context - model.soft_tokens
        room = context - len(ids)
        if room < 1:
            raise Refused(
                400,
                f"The prompt has {len(ids)} tokens; prompt and answer have room for {context}",
                code="context_length_exceeded",
                param=body.asks,
            )
        limit, wanted = body.most
        if wanted is not None and wanted > min(room, self.limits.most_tokens):
            raise Refused(
                400,
                f"{wanted} tokens are more than this server writes after this prompt: "
                f"{min(room, self.limits.most_tokens)}",
                code="context_length_exceeded" if wanted > room else "max_tokens_exceeded",
                param=limit,
            )
        asked = body.grammar
        most = wanted or min(model.answer_tokens, room, self.limits.most_tokens)
        return Question(
            adapter=model.adapter,
            prompt=ids,
            most_tokens=most,
            sampling=_sampling(body, model),
            ends=model.ends,
            # The expert's stop texts are for its own answers: they would cut another form in the middle.
            stops=body.stops if asked else (*model.stops, *body.stops),
            grammar=asked or model.grammar,
        )

    @asynccontextmanager
    async def _slot(self, question: Question) -> AsyncIterator[None]:
        # Where the engine computes one adapter at a time, requests for one expert are answered together.
        group = question.adapter if self.engine.one_adapter_at_a_time else None
        if self._turns.must_wait(group) and self.metrics.waiting >= self.limits.queue:
            raise Refused(
                429,
                f"{self.limits.queue} requests wait already",
                code="queue_full",
                headers={"Retry-After": str(_RETRY_SECONDS)},
            )
        self.metrics.waiting += 1
        try:
            await self._turns.begin(group)
        finally:
            self.metrics.waiting -= 1
        self.metrics.running += 1
        try:
            yield
        finally:
            self.metrics.running -= 1
            self._turns.end()

    @property
    def has_token(self) -> bool:
        return self._token is not None

    def model_documents(self) -> list[dict[str, Any]]:
        return [self._described(name) for name in self._names()]

    def _names(self) -> list[str]:
        return [*self.models, *([AUTO] if self._router is not None else [])]

    async def _list_models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": self.model_documents()})

    async def _show_model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._names():
            raise unknown_model(name, self._names())
        return web.json_response(self._described(name))

    async def _show_questions(self, request: web.Request) -> web.Response:
        """For the page; other programs have no such call."""
        name = request.match_info["name"]
        if name not in self._names():
            raise unknown_model(name, self._names())
        model = self.models.get(name)
        if model is None or model.expert is None:
            return web.json_response({"tags": [], "questions": []})
        folder = model.expert.folder
        return web.json_response(await self._beside(lambda: questions_with_tags(folder, self._allowed)))

    def _described(self, name: str) -> dict[str, Any]:
        head = {"id": name, "object": "model", "created": self._created, "owned_by": "expert-cli"}
        model = self.models.get(name)
        if model is None or model.expert is None:
            return head
        expert, record = model.expert, model.expert.record
        score = record.score.as_json() if record.score is not None else None
        about = {"base": record.base.name, "adapter": record.adapter, "license": record.license}
        # Only the base that was scored had them: `base` answers without.
        examples = {"base_examples": expert.base_examples} if expert.base_examples else {}
        partly = {"partly_measured": expert.partly_measured} if expert.partly_measured else {}
        return {**head, **about, "score": score and {**score, **examples}, **partly}

    async def _health(self, _: web.Request) -> web.Response:
        ready = self.engine.ready
        document = {"status": "ok" if ready else "starting", "engine": self.engine.name}
        return web.json_response(document, status=200 if ready else 503)

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.metrics.text(), content_type="text/plain", charset="utf-8")


async def _content(request: web.Request) -> bytes:
    access.demand_json(request)
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise Refused(408, "The body did not arrive", code="body_timeout") from None
    except web.RequestPayloadError as error:
        # aiohttp would read on after the answer, and fail at the same bytes.
        request.content.feed_eof()
        request.protocol.close()
        reason = " ".join(str(error).split()).removeprefix("400, message: ")
        raise Refused(
            400,
            f"The body cannot be read: {reason}",
            code="invalid_body",
            headers={"Connection": "close"},
        ) from None


async def _whole(answer: Answer, pieces: AsyncGenerator[Piece, None], call: Call) -> web.Response:
    texts: list[str] = []
    async for piece in pieces:
        call.heard(piece)
        texts.append(piece.text)
        if piece.finish is not None:
            return web.json_response(answer.whole("".join(texts), piece.tokens, piece.finish))
    raise EngineFailed("the engine ended before the answer")


async def _stream(
    request: web.Request, answer: Answer, pieces: AsyncGenerator[Piece, None], call: Call
) -> web.StreamResponse:
    async for piece in pieces:
        call.heard(piece)
        if call.stream is None:
            # An engine that fails before its first piece still gets a status.
            call.stream = await Stream.begin(request, answer)
        await call.stream.add(piece)
        if piece.finish is not None:
            return call.stream.response
    raise EngineFailed("the engine ended before the answer")


async def _refuse(call: Call, refused: Refused) -> web.StreamResponse:
    """As the answer, or as the last event of a stream that has begun."""
    if call.stream is None:
        return refused.response()
    call.status = refused.status
    with suppress(ConnectionError):
        await call.stream.fail(refused)
    return call.stream.response


def _sampling(body: Body, model: Model) -> Sampling:
    """A request's own values over the expert's."""
    own = model.generation
    usual = (own.temperature if own.temperature is not None else 1.0) if own.do_sample else 0.0

    def first(*values: T | None, last: T) -> T:
        return next((value for value in values if value is not None), last)

    return Sampling(
        temperature=first(body.temperature, last=usual),
        top_p=first(body.top_p, own.top_p, last=1.0),
        top_k=first(body.top_k, own.top_k, last=0),
        min_p=first(body.min_p, own.min_p, last=0.0),
        repetition_penalty=own.repetition_penalty or 1.0,
        seed=body.seed,
    )


def _refusal(request: web.Request, error: web.HTTPException | Refused) -> Refused:
    if isinstance(error, Refused):
        return error
    known = {
        404: (f"There is no {request.path[:100]!r} here", "unknown_url"),
        405: (f"{request.method} is not answered here", "method_not_allowed"),
        413: (f"The body is larger than {MOST_BODY_BYTES} bytes", "body_too_large"),
    }
    message, code = known.get(error.status, (error.reason, "bad_request"))
    allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return Refused(error.status, message, code=code, headers=allowed)


def _route(request: web.Request) -> str:
    """A path of the server. Whatever else a request names is not written into a log."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "(unknown)"
