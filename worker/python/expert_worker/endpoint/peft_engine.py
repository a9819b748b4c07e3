"""transformers and peft as the engine, for adapters and bases that llama.cpp does not load. One answer at a
time: each has all of torch's threads."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from expert_worker.base import base_config, token_vectors
from expert_worker.base.adapter import load_adapter
from expert_worker.base.rope import scale_by_the_batch_alone
from expert_worker.endpoint.engine import EngineFailed, GrammarRefused, Piece, PromptRefused, Question
from expert_worker.errors import BadInput, ExpertError
from expert_worker.evaluate.decode import write
from expert_worker.generate.stage import TextEvents
from expert_worker.plan import Decoding, RopeScaling

_ANY_SEED = 2**31


class PeftEngine:
    name = "transformers"
    # Requests wait in the server, which counts them, and are answered in the order of their arrival.
    parallel = 1
    one_adapter_at_a_time = False

    def __init__(
        self,
        base: Path,
        adapters: Sequence[Path],
        tokenizer: Any,
        context: int,
        rope_scaling: RopeScaling | None = None,
        device: str = "cpu",
    ) -> None:
        self.context = context
        self._rope_scaling, self._device = rope_scaling, device
        self._folder, self._adapters, self._tokenizer = base, adapters, tokenizer
        # The base, then the adapters in their order.
        self._models: list[Any] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")

    @property
    def ready(self) -> bool:
        return bool(self._models)

    async def start(self) -> None:
        self._models = await asyncio.get_running_loop().run_in_executor(self._thread, self._load)

    async def stop(self) -> None:
        self._models = []
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _load(self) -> list[Any]:
        from transformers import AutoModelForCausalLM

        base: Any = AutoModelForCausalLM.from_pretrained(
            self._folder,
            config=base_config(self._folder, self._rope_scaling),
            dtype=torch.float32 if self._device == "cpu" else "auto",
            local_files_only=True,
        )
        scale_by_the_batch_alone(base)
        base = base.to(self._device).requires_grad_(False).eval()
        return [base, *(load_adapter(_sharing(base), folder) for folder in self._adapters)]

    async def answer(self, question: Question) -> AsyncGenerator[Piece, None]:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Piece | Exception] = asyncio.Queue()
        voice = _Voice(lambda piece: loop.call_soon_threadsafe(pieces.put_nowait, piece))
        running = loop.run_in_executor(self._thread, self._write, question, voice)
        try:
            while True:
                piece = await pieces.get()
                if isinstance(piece, BadInput) and piece.code == token_vectors.TOO_LARGE:
                    raise PromptRefused(piece.message)
                if isinstance(piece, ExpertError) and question.grammar is not None:
                    raise GrammarRefused(piece.message)
                if isinstance(piece, Exception):
                    raise EngineFailed(f"{type(piece).__name__}: {piece}")
                yield piece
                if piece.finish is not None:
                    return
        finally:
            voice.stopped = True
            running.cancel()

    def _write(self, question: Question, voice: _Voice) -> None:
        if voice.stopped:
            return
        try:
            self._answer(question, voice)
        except Exception as error:
            voice.send(error)

    def _answer(self, question: Question, voice: _Voice) -> None:
        sampling = question.sampling
        texts = [str(self._tokenizer.decode([end])) for end in question.ends]
        stops = tuple(dict.fromkeys([*texts, *question.stops]))
        decoding = Decoding(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            stop_sequences=stops,
            max_new_tokens=question.most_tokens,
            grammar=question.grammar,
        )
        ids = torch.tensor([list(question.prompt)])
        model = self._models[0 if question.adapter is None else 1 + question.adapter]
        # On a GPU an id beyond the vectors ends the process's use of it, for all requests after this one.
        token_vectors.check_ids(model, self._tokenizer, [question.prompt])
        streamer = TextEvents(
            self._tokenizer, stops, voice, "", frozenset(question.ends), question.most_tokens
        )
        voice.tokens = lambda: streamer.tokens
        write(
            model,
            self._tokenizer,
            ids,
            torch.ones_like(ids),
            decoding,
            seeds=[int(torch.seed() % _ANY_SEED) if sampling.seed is None else sampling.seed],
            stop_asked=lambda: voice.stopped,
            streamer=streamer,
        )


class _Voice:
    """Text from the engine's thread, until nobody wants it any more."""

    def __init__(self, send: Callable[[Piece | Exception], object]) -> None:
        self.send = send
        self.stopped = False
        self.tokens: Callable[[], int] = lambda: 0

    def text(self, source: str, text: str, *, done: bool = False, cut: bool = False) -> None:
        del source
        if not self.stopped:
            self.send(Piece(text, self.tokens(), ("length" if cut else "stop") if done else None))


def _sharing(base: Any) -> Any:
    """Modules for one adapter, with the weights of the base."""
    shared = {id(tensor): tensor for tensor in (*base.parameters(), *base.buffers())}
    shared |= {id(state): state for state in _states_in_8_bits(base)}
    return copy.deepcopy(base, shared)


def _states_in_8_bits(base: Any) -> list[Any]:
    """The first answer would move the scales from the weight, which all have, into the state of the layer
    that computes it, and the others would answer without them. So they are moved before, and the state is
    shared."""
    layers = [module for module in base.modules() if type(module).__name__ == "Linear8bitLt"]
    for layer in layers:
        if layer.weight.CB is not None:
            layer.init_8bit_state()
    return [layer.state for layer in layers]
