"""Keeps results by date and device."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from machine import device

PACKAGES = ("torch", "transformers", "peft", "trl")


def keep(found: Mapping[str, Any], folder: Path, date: str) -> Path:
    """Adds the documents under `benches`; one of the same name gives way, everything else stays."""
    path = folder / f"{date}-cpu.json"
    document: dict[str, Any] = {"date": date, "device": device(), "versions": versions()}
    if path.exists():
        document = json.loads(path.read_text())
    document.setdefault("benches", {}).update(found)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Python's, and those of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
