"""What a person or a program is shown once the server listens."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from expert_worker.endpoint.server import Server
from expert_worker.endpoint.shelf import AUTO
from expert_worker.results import Share
from expert_worker.terminal import write_stdout


@dataclass(frozen=True)
class Served:
    host: str
    port: int
    server: Server
    as_json: bool

    @property
    def url(self) -> str:
        # What a server on all addresses is reached by from this machine.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def announce(served: Served, say: Callable[[str], None]) -> None:
    engine = served.server.engine
    if served.as_json:
        document: dict[str, Any] = {
            "ok": True,
            "url": served.url,
            "engine": engine.name,
            "context": engine.context,
            "models": served.server.model_documents(),
        }
        write_stdout(json.dumps(document))
        return
    write_stdout("\n".join([*_table(served), "", f"serving at {served.url} ({engine.name})"]))
    first = next(iter(served.server.models))
    body = {"model": first, "messages": [{"role": "user", "content": "Hello"}]}
    words = ["curl", f"{served.url}/v1/chat/completions", "-H", "Content-Type: application/json"]
    if served.server.has_token:
        words += ["-H", "Authorization: Bearer TOKEN"]
    say(f"try: {shlex.join([*words, '-d', json.dumps(body)])}")
    say("Ctrl-C stops")


def _table(served: Served) -> list[str]:
    rows = [("model", "score", "base", "rows")]
    for model in served.server.models.values():
        expert = model.expert
        score = expert.record.score if expert is not None else None
        if expert is None:
            rows.append((model.name, "", "", ""))
        elif score is None:
            partly = expert.partly_measured
            found = f"measured {partly} only" if partly else "not measured"
            rows.append((model.name, found, "", ""))
        else:
            shown = _share(score.base) + _with_examples(expert.base_examples)
            rows.append((model.name, _share(score.adapter), shown, str(score.rows)))
    if AUTO in {document["id"] for document in served.server.model_documents()}:
        rows.append((AUTO, "chooses an expert or the base", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _with_examples(count: int) -> str:
    return f" with {count} example{'' if count == 1 else 's'}" if count else ""


def _share(share: Share | None) -> str:
    return "-" if share is None else f"{share.accuracy:.1%}"
