"""From options to a server that runs until it is asked to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from aiohttp import web

from expert_worker.base import base_config, load_tokenizer, locate, positions
from expert_worker.base.embedded import HUB_ID, NAME
from expert_worker.base.rope import scaled_length
from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import human
from expert_worker.endpoint.connections import IDLE_SECONDS, Connections
from expert_worker.endpoint.engine import Engine
from expert_worker.endpoint.gguf_cache import adapter_gguf, base_gguf, check_base, hold
from expert_worker.endpoint.llama import LlamaEngine
from expert_worker.endpoint.questions import skipped_files
from expert_worker.endpoint.ready import Served, announce
from expert_worker.endpoint.server import LAST_WORD_SECONDS, Limits, Server
from expert_worker.endpoint.shelf import AUTO, Expert, models, read_experts
from expert_worker.errors import BadInput, ExpertError, Failed
from expert_worker.events import Events
from expert_worker.events.models import Event, Stage, WarningLine
from expert_worker.exit import Exit
from expert_worker.export import llama_cpp
from expert_worker.export.gguf_files import Shape, check_head, check_kind, check_rope_scaling
from expert_worker.plan import Base, Paths, RopeScaling
from expert_worker.routing.models import Shelf
from expert_worker.routing.router import Router
from expert_worker.routing.shelf import open_router

Say = Callable[[str], None]
# An engine that ends more often than this within the time is not started again.
_RESTARTS, _RESTART_SECONDS = 3, 60.0


async def serve(
    options: argparse.Namespace, listener: socket.socket, token: str | None, log: IO[bytes], say: Say
) -> int:
    experts = read_experts(options.experts)
    events = Events([_Lines(say)], task="generate")
    located = _located(experts[0], options)
    say(f"Preparing {_counted(experts)} on {located.base.name}")
    folder = locate(located.base, located.paths, events)
    tokenizer = load_tokenizer(located.base, located.paths, events)
    engine = _engine(_EngineInputs(options, experts, folder, tokenizer, log, say))
    router = _router(options.router, say) if options.router else None
    allowed = options.allow_path
    for expert in experts:
        for file in skipped_files(expert.folder, allowed):
            say(_skipped(expert, file))
    say(f"Starting {engine.name}")
    await engine.start()
    limits = Limits(engine.parallel, options.queue, options.max_tokens, options.timeout)
    served = models(experts, tokenizer, folder)
    server = Server(engine, served, limits, router=router, token=token, allowed=allowed, log=say)
    return await _run(server, listener, options, say)


def _counted(experts: Sequence[Expert]) -> str:
    return f"{len(experts)} expert{'' if len(experts) == 1 else 's'}"


def _skipped(expert: Expert, file: Path) -> str:
    folder = shlex.quote(str(file.parent))
    said = (
        f"The page shows no test questions of {expert.name} from {file}: the file or the run is outside the "
        f"expert's folder; --allow-path {folder} shows them"
    )
    # One line, whatever the names hold.
    return " ".join(said.split())


def _router(path: Path, say: Say) -> Router | None:
    """Without it the server has no model `auto`, and the others as usual."""
    shelf = Shelf.model_validate_json(path.read_bytes())
    if not Path(shelf.file).is_file():
        say("Learning the router from the experts' training rows")
    try:
        opened = open_router(shelf)
    except ExpertError as error:
        say(f"warning: there is no model {AUTO}: {error.message}")
        return None
    for warning in opened.warnings:
        say(f"warning: {warning}")
    return opened.router


async def _run(server: Server, listener: socket.socket, options: argparse.Namespace, say: Say) -> int:
    engine = server.engine
    application = server.application()

    async def finish(_: web.Application) -> None:
        await server.finish(options.grace)

    # aiohttp calls it when it takes no more requests, before it closes connections.
    application.on_shutdown.append(finish)
    connections = Connections(application, say)
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=_quiet_logger(say),
        handler_cancellation=True,
        keepalive_timeout=IDLE_SECONDS,
        shutdown_timeout=LAST_WORD_SECONDS,
    )
    await runner.setup()
    stop = asyncio.Event()
    _hear_signals(stop)
    keeper = asyncio.create_task(_keep(engine, stop, say))
    try:
        await connections.take(runner, listener)
        host, port = listener.getsockname()[:2]
        announce(Served(host, port, server, options.json), say)
        await stop.wait()
        if not keeper.done():
            say("Stopping: requests that run may finish")
    finally:
        connections.take_no_more()
        await runner.cleanup()
        keeper.cancel()
        (ended,) = await asyncio.gather(keeper, return_exceptions=True)
        await engine.stop()
    if isinstance(ended, ExpertError):
        raise ended
    return int(Exit.DONE)


def _quiet_logger(say: Say) -> logging.Logger:
    """One line, without a traceback, for bytes that are not HTTP; all else the server catches itself."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            cause = record.exc_info[1] if record.exc_info else None
            say(f"warning: {record.getMessage()}: {type(cause).__name__ if cause else record.levelname}")

    logger = logging.Logger("expert_worker.endpoint", logging.WARNING)
    logger.addHandler(Lines())
    return logger


async def _keep(engine: Engine, stop: asyncio.Event, say: Say) -> None:
    """Starts an engine again that has ended; one that keeps ending ends the server."""
    if not isinstance(engine, LlamaEngine):
        # It ends with this process.
        await asyncio.Event().wait()
        return
    loop, ends = asyncio.get_running_loop(), list[float]()
    try:
        while True:
            status = await engine.ended()
            if stop.is_set():
                return
            now = loop.time()
            ends = [end for end in ends if now - end < _RESTART_SECONDS] + [now]
            if len(ends) > _RESTARTS:
                raise Failed(
                    f"llama.cpp ended {len(ends)} times in {_RESTART_SECONDS:g} s, with status {status}",
                    hint="Choose --engine transformers, or reinstall xllamacpp.",
                    code="engine-failed",
                )
            say(f"warning: llama.cpp ended with status {status}; starting it again")
            await engine.start()
    finally:
        stop.set()


def _hear_signals(stop: asyncio.Event) -> None:
    """The first lets requests finish, within the grace; the second ends everything at once."""
    loop = asyncio.get_running_loop()
    codes = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}

    def receive(number: int) -> None:
        if stop.is_set():
            # The engine's process ends with the pipe that this process holds.
            os._exit(int(codes[signal.Signals(number)]))
        stop.set()

    for number in codes:
        try:
            loop.add_signal_handler(number, receive, number)
        except NotImplementedError:
            signal.signal(number, lambda which, _: loop.call_soon_threadsafe(receive, which))


@dataclass(frozen=True)
class _Located:
    base: Base
    paths: Paths


def _located(expert: Expert, options: argparse.Namespace) -> _Located:
    """The embedded base is recorded by its Hub id."""
    name, folder = expert.record.base.name, options.base_folder
    if folder is None and name == HUB_ID:
        name = NAME
    elif folder is None and "/" not in name:
        raise BadInput(
            f"The base {name} was a folder where {expert.name} was trained, and is not known here",
            hint="Name its folder with --base.",
            code="base-missing",
        )
    nowhere = dict.fromkeys(("manifest", "expert_dir", "output", "cache"), "")
    base = str(folder) if folder is not None else None
    paths = Paths(**nowhere, home=str(options.home), data={}, base=base)
    return _Located(Base(name=name, quantization="none"), paths)


@dataclass(frozen=True)
class _EngineInputs:
    """What an engine is made from. `folder` is the base's."""

    options: argparse.Namespace
    experts: Sequence[Expert]
    folder: Path
    tokenizer: Any
    log: IO[bytes]
    say: Say

    @property
    def context(self) -> int:
        wanted, scaling = int(self.options.context), self.rope_scaling
        if scaling is None:
            most = positions.of_config(files.read_json(self.folder / "config.json"))
        else:
            most = scaled_length(base_config(self.folder, scaling), scaling)
        return wanted if most is None else min(wanted, most)

    @property
    def rope_scaling(self) -> RopeScaling | None:
        """That of all experts."""
        return next((expert.record.base.rope_scaling for expert in self.experts), None)


def _engine(given: _EngineInputs) -> Engine:
    options = given.options
    if (context := given.context) < options.context:
        given.say(f"context {context:,} instead of {options.context:,}: the base has no more positions")
    if options.engine != "transformers":
        try:
            return _llama(given)
        except BadInput as refused:
            # Transformers holds the base as it is: --quantize would have no effect.
            falls_back = options.engine == "auto" and options.quantize is None
            if not falls_back or refused.code not in ("adapter-not-gguf", "gguf-unknown"):
                raise
            given.say(f"{refused.message}: transformers answers, one request at a time")
    import torch

    from expert_worker.endpoint.peft_engine import PeftEngine
    from expert_worker.evaluate.guidance import check_grammar

    check_base(given.folder, given.experts[0], given.say)
    for expert in given.experts:
        check_grammar(expert.grammar)
    if options.threads:
        torch.set_num_threads(options.threads)
    adapters = [expert.folder for expert in given.experts]
    device = _device_of_torch(given.say)
    return PeftEngine(given.folder, adapters, given.tokenizer, given.context, given.rope_scaling, device)


def _device_of_torch(say: Say) -> str:
    import torch

    from expert_worker.cuda_build import has_code_for

    if not torch.cuda.is_available():
        return "cpu"
    if has_code_for(0):
        return "cuda"
    name = torch.cuda.get_device_name(0)
    say(f"torch {torch.__version__} has no code for {name} (see `expert-cli doctor`): the CPU answers")
    return "cpu"


def _llama(given: _EngineInputs) -> Engine:
    options, experts, folder, say = given.options, given.experts, given.folder, given.say
    for expert in experts:
        check_kind(expert.adapter_config)
        check_head(expert.folder, folder)
    check_rope_scaling(given.rope_scaling)
    Shape.of(folder)
    llama_cpp.require()
    base = base_gguf(options.home, folder, experts, say, options.quantize)
    say(f"The base is held in {options.quantize or 'f16'}: {human(base.path.stat().st_size)} of memory")
    adapters = [adapter_gguf(options.home, folder, base, expert, say) for expert in experts]
    tokenizer = given.tokenizer
    ends = {end for expert in experts for end in expert.generation.end_ids} | {tokenizer.eos_token_id}
    return LlamaEngine(
        model=base.path,
        adapters=adapters,
        held=[hold(path) for path in (base.path, *adapters)],
        parallel=options.parallel,
        context=given.context,
        threads=options.threads or _threads(),
        token_texts={end: str(tokenizer.decode([end])) for end in ends if end is not None},
        added_tokens=tokenizer.get_added_vocab().keys(),
        text_of=lambda prompt: str(tokenizer.decode(list(prompt), skip_special_tokens=True)),
        log=given.log,
    )


def _threads() -> int:
    import torch

    return torch.get_num_threads()


class _Lines:
    """Events of the base's loading, as lines for a person."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def write(self, event: Event, line: bytes) -> None:
        del line
        if isinstance(event.body, Stage):
            self._say(" ".join(part for part in (event.body.name, event.body.detail) if part))
        elif isinstance(event.body, WarningLine):
            self._say(f"warning: {event.body.message}")

    def close(self) -> None:
        pass
