"""Markup in every text of a run, under odd folder names: the page is parsed, and none of it is an element."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.adversary import world
from tests.adversary.attempt import Area, Attempt

MARKUP = "<script>fetch('//evil')</script><img src=x onerror=alert(1)>\"'><svg/onload=alert(1)>&lt;b&gt;"
FOLDERS = ("plain", "<img src=x onerror=alert(1)>", "a'onmouseover='alert(1)'&amp;")


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "img", "iframe", "object", "embed", "link", "base", "form"}:
            self.faults.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (name in {"src", "href"} and not _harmless(value or "")):
                self.faults.append(f"{tag} {name}={value}")
            if tag == "meta" and name == "content" and value and "default-src" in value:
                self.policy = value

    handle_startendtag = handle_starttag


def _harmless(link: str) -> bool:
    return link.startswith("#") or (
        link.endswith("report.html") and ":" not in link.split("/", maxsplit=1)[0]
    )


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else FOLDERS:
        yield Attempt(f"folder {name[:12]}", partial(attempt, name))


def attempt(name: str, folder: Path) -> None:
    run = folder / name / "out"
    run.parent.mkdir()
    world.inside("sample_run", str(run.parent))
    for file in ("run.json", "plan.json", "evaluation.json"):
        if (run / file).exists():
            (run / file).write_text(json.dumps(spoilt(json.loads((run / file).read_text()))))
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    for line in lines:
        body = line["body"]
        line["body"] = {**spoilt(body), "type": body["type"]}
    (run / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    world.inside("report", str(run))
    world.inside("report_all", str(folder))
    pages = [run / "report.html", *folder.glob("*.html")]
    assert len(pages) == 2, pages
    for path in pages:
        page = Page()
        page.feed(path.read_text())
        assert not page.faults, page.faults[:3]
        assert "default-src 'none'" in page.policy


def spoilt(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: spoilt(part) for key, part in value.items()}
    if isinstance(value, list):
        return [spoilt(part) for part in value]
    return f"{value}{MARKUP}" if isinstance(value, str) else value


AREA = Area("report_markup", "report: markup in every text, tag, folder name", attempts)
