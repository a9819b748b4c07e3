"""Packages that are newer than what this version was tested with."""

import importlib.metadata
import re
from pathlib import Path

import pytest

from expert_worker.crash import as_expert_error
from expert_worker.probe import probe
from expert_worker.tested import NEWEST, hint_of_newer_packages, newest_tested

LOCK = Path(__file__).parents[3] / "requirements" / "worker.lock"


@pytest.fixture
def later_transformers(monkeypatch):
    """As if the next release of transformers were installed."""
    major, minor = NEWEST["transformers"].split(".")
    later = f"{major}.{int(minor) + 1}.0"
    version = importlib.metadata.version

    def fake(name: str) -> str:
        return later if name == "transformers" else version(name)

    monkeypatch.setattr(importlib.metadata, "version", fake)
    return later


def test_the_tested_releases_are_those_of_the_lock():
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\d+\.\d+)", LOCK.read_text(), re.MULTILINE))
    assert {name: locked[name] for name in NEWEST} == NEWEST


@pytest.mark.parametrize(
    ("installed", "tested"),
    [
        (NEWEST["torch"] + ".1+cu130", None),
        ("2.11.0", None),
        ("3.0.0", NEWEST["torch"]),
        ("2.100.0.dev20270101", NEWEST["torch"]),
        ("4", NEWEST["torch"]),
    ],
)
def test_a_patch_is_not_newer_and_a_minor_release_is(installed, tested):
    assert newest_tested("torch", installed) == tested
    assert newest_tested("unknown", installed) is None


def test_without_newer_packages_nothing_is_said(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: NEWEST[name] + ".0")
    assert hint_of_newer_packages() is None


def test_a_package_that_is_not_installed_is_not_newer(monkeypatch):
    def none(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", none)
    assert hint_of_newer_packages() is None


@pytest.mark.parametrize(
    "error",
    [
        IndexError("list index out of range"),
        ImportError("cannot import name 'Cache' from 'transformers'", name="transformers"),
    ],
)
def test_an_unforeseen_error_names_them(later_transformers, tmp_path, error):
    hint = as_expert_error(error, [tmp_path]).hint
    assert hint is not None
    assert f"transformers {later_transformers} (tested up to {NEWEST['transformers']})" in hint
    assert f"pip install 'transformers=={NEWEST['transformers']}.*'" in hint


def test_a_package_that_is_missing_is_still_to_be_installed(later_transformers, tmp_path):
    error = ModuleNotFoundError("No module named 'wandb'", name="wandb")
    assert (as_expert_error(error, [tmp_path]).hint or "").startswith("Install wandb beside")


def test_doctor_hears_of_them(later_transformers):
    assert probe()["newest_tested"]["transformers"] == NEWEST["transformers"]
