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
        score = model.expert.record.score if model.expert is not None else None
        if model.expert is None:
            rows.append((model.name, "", "", ""))
        elif score is None:
            rows.append((model.name, "not measured", "", ""))
        else:
            rows.append((model.name, _share(score.adapter), _share(score.base), str(score.rows)))
    if AUTO in {document["id"] for document in served.server.model_documents()}:
        rows.append((AUTO, "chooses an expert or the base", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _share(share: Share | None) -> str:
    return "-" if share is None else f"{share.accuracy:.1%}"
