"""`expert-cli doctor --prove`: JSON lines for the device, for each kernel, and for the file that has both."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from expert_worker.errors import storage_error
from expert_worker.events.sinks import Pipe


def print_proof(home: Path, pipe: Pipe) -> None:
    import torch

    from expert_worker.train.fast.kernels import verdicts
    from expert_worker.train.fast.prove import prove

    def say(kind: str, value: object) -> None:
        pipe.write_raw(json.dumps({kind: value}).encode() + b"\n")

    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    say("subject", verdicts.subject(device))
    trials = prove(device, lambda trial: say("trial", asdict(trial)))
    try:
        kept = verdicts.keep(home, device, trials, datetime.now(UTC).strftime("%Y-%m-%d"))
    except OSError as error:
        raise storage_error(error, "keep what was found", "with EXPERT_HOME") from error
    say("file", str(kept))
    pipe.close()
