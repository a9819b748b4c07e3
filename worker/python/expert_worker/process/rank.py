"""What a process knows that trains one expert together with others, and how it follows the one that started
them all. The processes of a launcher such as torchrun follow nobody."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass

from expert_worker.stop import SIGNALS, Stop

RANK, RENDEZVOUS = "EXPERT_RANK", "EXPERT_RENDEZVOUS"
ENVIRONMENT = "env://"
INTERRUPT, TERMINATE = b"interrupt\n", b"terminate\n"


@dataclass(frozen=True)
class Rank:
    """Which of the processes this is, and the file by which they find each other, or `env://`."""

    number: int
    rendezvous: str

    @property
    def is_launched(self) -> bool:
        """Started by a launcher, perhaps on several machines; torch's variables say where they meet."""
        return self.rendezvous == ENVIRONMENT


def this_rank() -> Rank | None:
    """None in a process that works by itself."""
    number = os.environ.get(RANK, "")
    return Rank(int(number), os.environ[RENDEZVOUS]) if number.isdecimal() else None


def has_leader() -> bool:
    """Whether a process of ours started this one to train with others, and watches them all."""
    rank = this_rank()
    return rank is not None and not rank.is_launched


def is_main_process() -> bool:
    """Of processes that work together, the first writes the run's events, checkpoints and results."""
    rank = this_rank()
    return rank is None or rank.number == 0


def follow_leader(stop: Stop) -> None:
    """Signals are the leader's business: it passes a wish to stop on by standard input, whose end is its own
    end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)

    def listen() -> None:
        # Not by sys.stdin, whose lock a waiting thread would hold when the interpreter ends.
        while said := os.read(0, 4096):
            stop.request(terminated=TERMINATE in said)
        os._exit(1)

    threading.Thread(target=listen, name="leader-watch", daemon=True).start()
