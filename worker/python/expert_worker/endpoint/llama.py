"""llama.cpp as the engine: one process, asked over HTTP on loopback with a key of its start."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import aiohttp
from llguidance import LLMatcher, LLTokenizer

from expert_worker.endpoint.ending import Ending
from expert_worker.endpoint.engine import EngineFailed, GrammarRefused, Piece, Question
from expert_worker.errors import BadInput, Failed
from expert_worker.evaluate.guidance import check_grammar, matcher, why_stopped
from expert_worker.plan import Grammar
from expert_worker.process.child import child_environment
from expert_worker.schema_grammar import OF_PROMPT

_START_SECONDS = 600.0
_STOP_SECONDS = 5.0
_ANY_SEED = 2**32 - 1
_BYTES = LLTokenizer("byte")
# Of RFC 3986, what the format `uri` stands for.
_URI_CHARACTER = r"[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2}"
_URI_END = rf"({_URI_CHARACTER}|[?])*"
_URI = (
    r"^[A-Za-z][A-Za-z0-9+.-]*:(//\[[0-9A-Fa-f:.]+\](:[0-9]*)?)?"
    rf"({_URI_CHARACTER})*(\?{_URI_END})?(#{_URI_END})?$"
)
# Of a JSON Schema: names with a schema each, and values, which are none.
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("const", "enum", "default", "examples")


@dataclass
class LlamaEngine:
    model: Path
    adapters: Sequence[Path]
    parallel: int
    context: int
    threads: int
    # Texts of token ids: llama.cpp ends an answer at a text.
    token_texts: dict[int, str]
    # Of the tokenizer: the special tokens, and others that are one token wherever they stand.
    added_tokens: Collection[str]
    # A prompt as text, for a grammar of the names in it.
    text_of: Callable[[Sequence[int]], str]
    log: IO[bytes]
    name: str = "llama.cpp"
    one_adapter_at_a_time: bool = True
    # Its files, open as long as they are needed.
    held: Sequence[IO[bytes]] = ()
    _key: str = field(default_factory=lambda: secrets.token_hex(16))
    _process: asyncio.subprocess.Process | None = None
    _client: aiohttp.ClientSession | None = None
    _address: str = ""

    @property
    def ready(self) -> bool:
        return self._process is not None and self._process.returncode is None and bool(self._address)

    async def start(self) -> None:
        command = [sys.executable, "-P", "-m", "expert_worker.endpoint.llama_process"]
        self._address = ""
        process = self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self.log,
            env=child_environment(EXPERT_PARENT_PID=str(os.getpid())),
            # Ctrl-C in a terminal goes to the whole group: the server decides when this process ends.
            start_new_session=True,
        )
        assert process.stdin is not None and process.stdout is not None
        request = {
            "model": str(self.model),
            "adapters": [str(path) for path in self.adapters],
            "parallel": self.parallel,
            "context": self.context,
            "threads": self.threads,
            "key": self._key,
        }
        process.stdin.write(json.dumps(request).encode() + b"\n")
        try:
            async with asyncio.timeout(_START_SECONDS):
                line = await process.stdout.readline()
        except TimeoutError:
            process.kill()
            line = b""
        if not line:
            status = await process.wait()
            raise Failed(
                f"llama.cpp did not start (status {status}): {self._last_line()}",
                hint="Check that there is memory for the model, lower --parallel or --context, "
                "or choose --engine transformers.",
                code="engine-failed",
            )
        self._address = json.loads(line)["address"]
        if self._client is None:
            # No limits here: the server in front has them. A kept connection may be closed by the other end
            # while a request is written into it, and a POST is not repeated.
            self._client = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
            )

    async def answer(self, question: Question) -> AsyncGenerator[Piece, None]:
        if not self.ready or self._client is None:
            raise EngineFailed("the engine is not running")
        headers = {"Authorization": f"Bearer {self._key}"}
        kept = await self._kept(question)
        url, body = f"{self._address}/completion", self._body(question, kept)
        ending = Ending([*self._end_texts(question), *question.stops])
        try:
            async with self._client.post(url, json=body, headers=headers) as response:
                if response.status == 400 and question.grammar is not None:
                    raise GrammarRefused(_reason(await response.text()))
                if response.status != 200:
                    raise EngineFailed(f"llama.cpp refused a prompt: {(await response.text())[:300]}")
                async for document in _documents(response):
                    if "error" in document:
                        raise EngineFailed(f"llama.cpp failed: {str(document['error'])[:300]}")
                    text, tokens = ending.add(str(document["content"])), int(document["tokens_predicted"])
                    ended = bool(document["stop"])
                    if ended and not ending.reached:
                        text += ending.rest()
                    if kept is not None:
                        kept.add(text)
                    if ending.reached:
                        # Leaving closes the connection, which ends the work on it.
                        yield Piece(text, tokens, "stop")
                        return
                    if ended:
                        limit = document["stop_type"] == "limit"
                        yield Piece(text, tokens, "length" if limit else "stop")
                        return
                    yield Piece(text, tokens)
        except aiohttp.ClientError as error:
            raise EngineFailed(f"llama.cpp is not there: {error}") from None
        raise EngineFailed("llama.cpp ended before the answer")

    def _end_texts(self, question: Question) -> list[str]:
        return [self.token_texts[end] for end in question.ends if end in self.token_texts]

    def _stop_tokens(self, question: Question) -> list[str]:
        return [stop for stop in question.stops if stop in self.added_tokens]

    async def _kept(self, question: Question) -> _Kept | None:
        grammar = question.grammar
        if grammar is None or grammar.kind == "gbnf":
            return None
        # Reading a large schema takes a tenth of a second, in which others are answered.
        return await asyncio.to_thread(_Kept, grammar, self.text_of(question.prompt), question.ends)

    def _body(self, question: Question, kept: _Kept | None) -> dict[str, Any]:
        sampling = question.sampling
        return {
            **_constraint(question.grammar, kept),
            "prompt": list(question.prompt),
            "stream": True,
            # The last document otherwise repeats the prompt.
            "response_fields": ["content", "tokens_predicted", "stop", "stop_type"],
            "cache_prompt": False,
            "n_predict": question.most_tokens,
            # Control tokens have no text for llama.cpp unless they are listed. Ends are looked for here: it
            # drops the last text of an answer at its limit where that begins like a stop text.
            "preserved_tokens": [*self._end_texts(question), *self._stop_tokens(question)],
            # The order of transformers.
            "samplers": ["penalties", "temperature", "top_k", "top_p", "min_p"],
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "repeat_penalty": sampling.repetition_penalty,
            "repeat_last_n": self.context,
            "seed": _ANY_SEED if sampling.seed is None else sampling.seed,
            # The whole list with every request, also for the base.
            "lora": [
                {"id": place, "scale": 1.0 if place == question.adapter else 0.0}
                for place in range(len(self.adapters))
            ],
        }

    async def ended(self) -> int:
        """Waits for the process to end."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.close()
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
            await process.wait()

    def _last_line(self) -> str:
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it printed nothing"


def _constraint(grammar: Grammar | None, kept: _Kept | None) -> dict[str, Any]:
    """llama.cpp reads GBNF itself, but takes minutes for the grammar of a query: the llguidance in it reads
    that one, and that of a JSON Schema."""
    if grammar is None:
        return {}
    if kept is None:
        return {"grammar": grammar.text}
    return kept.constraint


class _Kept:
    """The grammar of one answer. Where llama.cpp cannot use it, or it becomes too complex, llama.cpp answers
    without it and says nothing: so it is tried here before, and each answer is checked as it comes."""

    def __init__(self, grammar: Grammar, prompt: str, ends: Sequence[int]) -> None:
        try:
            if grammar.kind == "json_schema":
                check_grammar(grammar)
                schema = _without_uri(json.loads(grammar.text))
                self.constraint: dict[str, Any] = {"json_schema": schema}
                # With any white space between the parts, as the llguidance in llama.cpp has it.
                checked = LLMatcher.grammar_from_json_schema(json.dumps(schema))
            else:
                rules = OF_PROMPT[grammar.kind](prompt)
                # llama.cpp knows one end of an answer only, that of the base's file.
                self.constraint = {"grammar": rules.lark(ends)}
                checked = LLMatcher.grammar_from_lark(rules.lark())
            self._matcher = matcher(grammar, checked, _BYTES)
        except BadInput as refused:
            raise GrammarRefused(refused.message) from None
        # One that leads to no answer shows it at its first mask.
        self._matcher.compute_bitmask()
        if self._matcher.is_error():
            raise GrammarRefused(why_stopped(grammar, self._matcher))
        self._fits = False

    def add(self, text: str) -> None:
        if self._matcher.consume_tokens(_BYTES.tokenize_str(text)):
            self._fits = self._fits or bool(text)
            return
        broken = "llama.cpp wrote an answer that its grammar does not allow"
        if self._fits:
            raise EngineFailed(broken)
        # It dropped the grammar, and would again.
        raise GrammarRefused(f"{broken}; serve with --engine transformers")


def _without_uri(schema: Any) -> Any:
    """The llguidance in llama.cpp is an older one, which drops a grammar with the format `uri`."""
    if isinstance(schema, list):
        return [_without_uri(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for name, part in schema.items():
        if name in _NAMED and isinstance(part, dict):
            found[name] = {key: _without_uri(inner) for key, inner in part.items()}
        else:
            found[name] = part if name in _VALUES else _without_uri(part)
    if found.get("format") == "uri":
        del found["format"]
        found["allOf"] = [*found.get("allOf", ()), {"pattern": _URI}]
    return found


def _reason(text: str) -> str:
    try:
        return str(json.loads(text)["error"]["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return text[:300]


async def _documents(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The JSON documents of a stream of events."""
    async for line in response.content:
        if line.startswith((b"data: ", b"error: ")):
            found = json.loads(line.split(b": ", 1)[1])
            yield found if isinstance(found, dict) else {"error": found}
