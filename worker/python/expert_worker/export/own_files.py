"""Files that are in a folder themselves.

A link of a downloaded one may lead to a file of the user, and an export may be uploaded.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from expert_worker.errors import BadInput


def belongs_to(folder: Path, path: Path) -> bool:
    """The Hub's cache has links to its own files; any other link might lead to anything."""
    own = not path.is_symlink() or path.resolve().parent == folder.resolve().parent.parent / "blobs"
    return own and path.is_file()


def copy_own_file(path: Path, folder: Path) -> None:
    if not belongs_to(path.parent, path):
        raise BadInput(
            f"{path} is a symbolic link, and an export may be uploaded",
            hint="Put the file itself there if it may be in the export, or remove the link.",
            code="adapter-link",
        )
    shutil.copyfile(path, folder / path.name)
