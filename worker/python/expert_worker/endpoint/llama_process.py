"""llama.cpp's server in a process by itself: settings as JSON on standard input, its address on standard
output. It ends with its standard input.

Its library brings its own parts of OpenMP and of the C++ runtime and may abort; its server also hangs when it
is taken down before its first request, so this process never takes it down.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from expert_worker.process import bind_to_parent
from expert_worker.process.stdout import claim_stdout


def start(request: dict[str, Any]) -> Any:
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = request["model"]
    settings.n_parallel = request["parallel"]
    settings.n_ctx = request["context"] * request["parallel"]
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = request["threads"]
    settings.warmup, settings.verbosity, settings.fit_params = False, -1, False
    # Prompts arrive as tokens. What one adapter left in a cache must not serve another.
    settings.enable_chat_template = settings.ui = settings.endpoint_slots = False
    settings.cache_prompt = settings.cache_idle_slots = False
    settings.cache_ram_mib = 0
    settings.hostnames, settings.port, settings.api_keys = ["127.0.0.1"], 0, [request["key"]]
    # A request without a list would get every adapter at its loaded scale.
    settings.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(path, 0.0) for path in request["adapters"]]
    settings.lora_init_without_apply = True
    return xllamacpp.Server(settings)


def main() -> None:
    bind_to_parent(reads_stdin=True)
    with os.fdopen(claim_stdout(), "w", encoding="utf-8") as answers:
        server = start(json.loads(sys.stdin.readline()))
        answers.write(json.dumps({"address": server.listening_address}) + "\n")
        answers.flush()
        sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
