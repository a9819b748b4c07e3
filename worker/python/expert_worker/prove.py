"""Compares kernels, for `doctor --prove` and before the first training on a GPU.

It prints a JSON line for the device, one for each kernel, and one for the file that has both."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from expert_worker.errors import storage_error
from expert_worker.events.sinks import Pipe


@dataclass(frozen=True)
class Asked:
    """What is compared, and where the findings are kept."""

    home: Path
    # As torch counts cards; None is the first one, or the CPU where there is none.
    card: int | None = None
    # As the CLI's driver library calls the card, which plans look for.
    named: str | None = None
    # One number format; None is every one that the device has.
    number_format: str | None = None


def print_proof(asked: Asked, pipe: Pipe) -> None:
    import torch

    from expert_worker.train.fast.kernels import verdicts
    from expert_worker.train.fast.prove import formats, prove

    def say(kind: str, value: object) -> None:
        pipe.write_raw(json.dumps({kind: value}).encode() + b"\n")

    on_card = asked.card is not None or torch.cuda.is_available()
    device = torch.device("cuda", asked.card or 0) if on_card else torch.device("cpu")
    say("subject", verdicts.subject(device))
    # A run may compute in a format that the device only emulates: that of its base.
    named = asked.number_format
    wanted = formats(device) if named is None else [verdicts.FORMATS[named]]
    trials = prove(device, wanted, lambda trial: say("trial", asdict(trial)))
    try:
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        kept = verdicts.keep(asked.home, device, trials, date, asked.named)
    except OSError as error:
        raise storage_error(error, "keep what was found", "with EXPERT_HOME") from error
    say("file", str(kept))
    pipe.close()
