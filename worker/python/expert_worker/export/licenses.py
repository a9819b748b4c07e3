"""The licences beside an export: the expert's, and the base's where the folder holds the base's weights."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from expert_worker.export.own_files import belongs_to
from expert_worker.plan import Paths
from expert_worker.run_record.card import with_base_license
from expert_worker.run_record.digests import CARD

LICENSE = "LICENSE"
BASE_LICENSE = "LICENSE.base"
_TEXT = re.compile(r"licen[cs]e(\.(md|txt))?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+ -]{0,63}")


def copy_license(paths: Paths, folder: Path) -> None:
    """A link might lead to anything, and an export may be uploaded, so it is left out."""
    own = Path(paths.expert_dir) / LICENSE
    if own.is_file() and not own.is_symlink():
        shutil.copyfile(own, folder / LICENSE)


def copy_base_license(base: Path, folder: Path) -> None:
    """For a folder with the base's weights: its licence's text, and its name in the model card."""
    texts = [path for path in sorted(base.iterdir()) if _TEXT.fullmatch(path.name) and belongs_to(base, path)]
    if texts:
        shutil.copyfile(texts[0], folder / BASE_LICENSE)
    card = folder / CARD
    if card.is_file():
        text = with_base_license(
            card.read_text(encoding="utf-8"), _named(base), BASE_LICENSE if texts else None
        )
        card.write_text(text, encoding="utf-8")


def _named(base: Path) -> str | None:
    """By the base's model card."""
    from huggingface_hub import metadata_load

    card = base / CARD
    if not card.is_file() or not belongs_to(base, card):
        return None
    try:
        found = metadata_load(card) or {}
    except Exception:  # Whatever stands there, it only has no name of a licence.
        return None
    name = found.get("license")
    if name == "other":
        name = found.get("license_name") or name
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None
