"""The commit that an expert's folder is at, read from the repository's files.

`git` itself is not asked: a repository's configuration can name programs for it to run, and an expert that
was downloaded must not be able to start any.
"""

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def commit_of(folder: Path) -> str | None:
    git = _git_folder(folder.resolve())
    if git is None:
        return None
    try:
        return _resolve((git / "HEAD").read_text().strip(), git, _common(git))
    except (OSError, UnicodeDecodeError):
        return None


def _git_folder(start: Path) -> Path | None:
    for folder in [start, *start.parents]:
        git = folder / ".git"
        if git.is_dir():
            return git
        if git.is_file():
            text = git.read_text(errors="replace").strip()
            return (folder / text.removeprefix("gitdir:").strip()) if text.startswith("gitdir:") else None
    return None


def _common(git: Path) -> Path:
    """A linked worktree keeps its branches in the main repository."""
    pointer = git / "commondir"
    return git / pointer.read_text().strip() if pointer.is_file() else git


def _resolve(head: str, git: Path, common: Path) -> str | None:
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else None
    name = head.removeprefix("ref:").strip()
    for root in (git, common):
        loose = root / name
        if loose.is_file():
            commit = loose.read_text().strip()
            return commit if _COMMIT.fullmatch(commit) else None
    return _packed(name, common / "packed-refs")


def _packed(name: str, table: Path) -> str | None:
    if not table.is_file():
        return None
    for line in table.read_text().splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name and _COMMIT.fullmatch(commit):
            return commit
    return None
