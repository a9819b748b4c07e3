"""Releases of packages: the installed one, and the newest that this version was tested with.

A later one may have renamed what is called here.
"""

import importlib.metadata

# As in requirements/worker.lock, without the patch.
NEWEST = {
    "accelerate": "1.15",
    "bitsandbytes": "0.50",
    "datasets": "5.2",
    "peft": "0.21",
    "torch": "2.15",
    "transformers": "5.24",
}


def installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def newest_tested(package: str, installed: str) -> str | None:
    """The newest tested release of `package`, where the installed one is newer."""
    tested = NEWEST.get(package)
    return tested if tested is not None and _release(installed) > _release(tested) else None


def hint_of_newer_packages() -> str | None:
    """What to install instead, for an error that nobody foresaw."""
    newer: list[str] = []
    older: list[str] = []
    for package, tested in NEWEST.items():
        installed = installed_version(package)
        if installed is not None and newest_tested(package, installed) is not None:
            newer.append(f"{package} {installed} (tested up to {tested})")
            older.append(f"'{package}=={tested}.*'")
    if not newer:
        return None
    return (
        f"Newer than what this version was tested with: {', '.join(newer)}. "
        f"If the same works with `python -m pip install {' '.join(older)}`, that was the cause."
    )


def _release(version: str) -> tuple[int, ...]:
    """`2.15.0+cu130` as (2, 15)."""
    parts = version.split("+", 1)[0].split(".")[:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)
