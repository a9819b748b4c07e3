"""llama.cpp in a process by itself: one JSON request on standard input, a line of output for each answer.

Its library brings its own parts of OpenMP and of the C++ runtime, and in a process that has loaded torch and
others it can abort while it is imported.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from expert_worker.process import bind_to_parent
from expert_worker.process.stdout import claim_stdout

# Of a question and its answer, in tokens.
CONTEXT = 2048


def serve(request: dict[str, Any]) -> Any:
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = request["model"]
    settings.n_ctx, settings.n_parallel, settings.warmup, settings.verbosity = CONTEXT, 1, False, -1
    settings.cpuparams.n_threads = request["threads"]
    settings.use_jinja, settings.chat_template = True, request["template"]
    # Thinking would be split off the answer.
    settings.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    if request["adapter"] is not None:
        settings.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(request["adapter"], 1.0)]
        settings.lora_init_without_apply = True
    return xllamacpp.Server(settings)


def answer(server: Any, body: dict[str, Any]) -> dict[str, str]:
    found = server.handle_chat_completions(body)
    document = found if isinstance(found, dict) else json.loads(found)
    if "choices" not in document:
        return {"refused": str(document)[:300]}
    return {"answer": str(document["choices"][0]["message"]["content"] or "")}


def main() -> None:
    bind_to_parent(reads_stdin=True)
    with os.fdopen(claim_stdout(), "w", encoding="utf-8") as answers:
        request = json.load(sys.stdin)
        server = serve(request)
        for body in request["bodies"]:
            answers.write(json.dumps(answer(server, body)) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
