"""`python -m expert_worker.endpoint FINAL...`: what `expert-cli serve` starts."""

from __future__ import annotations

import argparse
import asyncio
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from expert_worker.endpoint.listener import listen
from expert_worker.errors import ExpertError, Interrupted, Missing
from expert_worker.imports import quick_imports
from expert_worker.process.leave import leave
from expert_worker.terminal import report_failure, write_stderr

ENGINES = ("auto", "llama.cpp", "transformers")


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m expert_worker.endpoint", description=__doc__)
    found.add_argument("experts", nargs="+", type=Path, metavar="FINAL", help="a folder with an adapter")
    found.add_argument("--base-folder", type=Path)
    found.add_argument("--router", type=Path, metavar="SHELF", help="whose router chooses for `auto`")
    found.add_argument("--allow-path", action="append", default=[], type=Path)
    found.add_argument("--home", required=True, type=Path)
    found.add_argument("--host", default="127.0.0.1")
    found.add_argument("--port", default=8000, type=int)
    found.add_argument("--token-file", type=Path)
    found.add_argument("--engine", default="auto", choices=ENGINES)
    found.add_argument("--quantize", choices=("q8_0", "q4_1"))
    found.add_argument("--parallel", default=4, type=int)
    found.add_argument("--context", default=4096, type=int)
    found.add_argument("--max-tokens", default=2048, type=int)
    found.add_argument("--queue", default=64, type=int)
    found.add_argument("--timeout", default=300.0, type=float)
    found.add_argument("--grace", default=10.0, type=float)
    found.add_argument("--threads", default=0, type=int)
    found.add_argument("--json", action="store_true")
    found.add_argument("--quiet", action="store_true")
    return found


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    say: Callable[[str], None] = _say_warnings if options.quiet else write_stderr
    try:
        with _stops():
            return _serve(options, say)
    except Exception as error:
        return report_failure(_ending_of(error, options.home), as_json=options.json)


def _ending_of(error: Exception, home: Path) -> ExpertError:
    """As stages end. Training's advice for full memory is of no use to a server."""
    if isinstance(error, ExpertError):
        return error
    from expert_worker.crash import as_expert_error
    from expert_worker.memory_errors import ran_out

    found = as_expert_error(error, [home / "logs"])
    if ran_out(error):
        found.hint = (
            "Close other programs, answer on the CPU with `CUDA_VISIBLE_DEVICES=` before the command, or "
            "serve the runs of a smaller base with --model; --engine llama.cpp --quantize q4_1 needs least."
        )
    return found


def _say_warnings(line: str) -> None:
    if line.startswith("warning: "):
        write_stderr(line)


def _serve(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    # Before the first import of a module of the server: they import aiohttp.
    if find_spec("aiohttp") is None:
        raise Missing(
            "The HTTP server aiohttp is not installed",
            hint="Install it with `pip install 'expert-worker[serve]'`.",
            code="serve-missing",
        )
    from expert_worker.endpoint.access import demand_token, read_token, readable_by_others

    # What can be refused at once is refused before the libraries are loaded, which takes longer.
    token = read_token(options.token_file)
    demand_token(options.host, token)
    if options.token_file is not None and (why := readable_by_others(options.token_file)):
        say(f"warning: {why}")
    with listen(options.host, options.port) as listener:
        say("Loading libraries")
        with quick_imports():
            from expert_worker.endpoint.serve import serve
        with tempfile.TemporaryFile() as log:
            return asyncio.run(serve(options, listener, token, log, say))


class _Stopped(KeyboardInterrupt):
    """As asyncio lets it through; the number of the signal is its argument."""


@contextmanager
def _stops() -> Iterator[None]:
    """Ctrl-C and SIGTERM while the models are loaded, before the server has handlers for them."""

    def stop(number: int, _: object) -> NoReturn:
        raise _Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except _Stopped as stopped:
        terminated = stopped.args[0] == signal.SIGTERM
        raise Interrupted("Stopped before the server was ready", terminated=terminated) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    leave(main())
