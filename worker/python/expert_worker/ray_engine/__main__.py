"""`python -m expert_worker.ray_engine`: what `train --all --engine ray` talks to. The first line on standard
input describes the shelf, each further line submits or stops a task, and the end of the input ends the
driver.
"""

import json
import logging
import os
import signal
import socket
import sys
from importlib.util import find_spec
from typing import Any

from expert_worker.crash import as_expert_error
from expert_worker.errors import BadInput, ExpertError, Missing, first_line
from expert_worker.process import bind_to_parent, parent_pid
from expert_worker.process.stdout import claim_stdout
from expert_worker.stop import SIGNALS


def main() -> int:
    bind_to_parent(reads_stdin=True)
    obey_cli_only()
    channel = claim_stdout()
    try:
        serve(json.loads(sys.stdin.readline()), channel)
    except BaseException as error:
        known = as_expert_error(error, [])
        os.write(channel, json.dumps({"failed": known.document()}).encode() + b"\n")
        return int(known.exit_code)
    return 0


def obey_cli_only() -> None:
    """systemd and Slurm signal every process of a job: this one must outlive the tasks, which save. The CLI
    says what is to stop, and ends this process."""
    if parent_pid() is not None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def serve(shelf: dict[str, Any], channel: int) -> None:
    if find_spec("ray") is None:
        raise Missing(
            "--engine ray needs the package ray",
            hint="Install it on every machine of the cluster: pip install 'expert-worker[ray]'",
            code="ray-missing",
        )
    store = open_store(shelf["storage"]) if shelf["storage"] else None
    try:
        connect(shelf["address"])
        from expert_worker.ray_engine.driver import Driver

        driver = Driver(shelf, store, channel)
        driver.write(json.dumps({"ready": driver.check_nodes(shelf["check"])}))
        for line in sys.stdin:
            act(driver, json.loads(line))
    finally:
        if store is not None:
            store.close()


def open_store(url: str) -> Any:
    from expert_worker.ray_engine.shelf_store import ShelfStore

    return ShelfStore(url)


def act(driver: Any, message: dict[str, Any]) -> None:
    if submit := message.get("submit"):
        driver.submit(submit["id"], submit["resources"], submit["order"], submit["stored"])
    elif stop := message.get("stop"):
        driver.stop(stop["id"], stop["signal"])


def connect(address: str | None) -> None:
    import ray

    try:
        if address is not None:
            _await_answer(address)
        ray.init(
            address=address or "auto",
            logging_level=logging.ERROR,
            log_to_driver=False,
            configure_logging=False,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreachable(address, error) from error
    obey_cli_only()  # Ray has TERM end this process.


def _await_answer(address: str) -> None:
    """Ray itself tries for more than a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{address} is not HOST:PORT")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=10):
        pass


def _unreachable(address: str | None, error: Exception) -> ExpertError:
    where = f"at {address}" if address else "on this machine"
    return BadInput(
        f"Cannot connect to a Ray cluster {where}: {first_line(error)}",
        hint="Start one with `ray start --head` and name it with --ray-address HOST:PORT.",
        code="no-cluster",
    )


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
