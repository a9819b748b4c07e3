"""The container file: who runs in it, where its parts come from, and that both variants are whole."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "container" / "Dockerfile"
SECRET = re.compile(r"token|secret|passw|api_?key|credential", re.IGNORECASE)

Instruction = tuple[str, str]


def instructions(text: str) -> list[Instruction]:
    """Each with its arguments, continued lines joined and comments removed."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    words = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [(word.upper(), rest) for word, rest in words]


def faults(text: str, variant: str) -> list[str]:
    found: list[str] = []
    stages: dict[str, str | None] = {}
    image, user = "", "root"
    for word, rest in instructions(text.replace("${VARIANT}", variant)):
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            user = stages.get(image) or "root"
            if image not in stages and not re.search(r":\d[\w.-]*(@sha256:[0-9a-f]{64})?$", image):
                found.append(f"{image} has no version")
            last = name or "final"
            stages[last] = user
        elif word == "USER":
            user = rest
            stages[last] = user
        elif word == "ADD":
            found.append("ADD fetches and unpacks; COPY does not")
        elif word in ("ARG", "ENV") and SECRET.search(rest):
            found.append(f"{word} {rest} stays in the image")
        elif word == "COPY" and "--from" not in rest:
            found += [
                f"{source} is not in the repository"
                for source in rest.split()[:-1]
                if not (ROOT / source).exists()
            ]
        elif word == "RUN":
            for command in re.split(r"&&|;", rest):
                pinned = re.search(r"--require-hashes|--no-index", command)
                torch = "download.pytorch.org" in command and '"torch==$torch"' in command
                if "pip install" in command and not pinned and not torch:
                    found.append(f"no digests: {command.strip()}")
    if user in ("root", "0"):
        found.append("the program runs as root")
    return found


@pytest.mark.parametrize("variant", ["cpu", "cuda"])
def test_the_container_file(variant: str) -> None:
    text = FILE.read_text()
    assert faults(text, variant) == []
    assert text.count("FROM ") >= 7


def test_the_image_can_serve_and_score_texts() -> None:
    """Its user cannot add packages, so both extras are in it, in the versions that were tested."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = (ROOT / "requirements/container.in").read_text().splitlines()
    needed = [*extras["serve"], *extras["text-metrics"]]
    assert sorted(line for line in asked if not line.startswith("#")) == sorted(["-r worker.in", *needed])
    tested, worker, container = pinned("dev"), pinned("worker"), pinned("container")
    assert worker <= container <= tested
    assert {re.split("[<>=]", one)[0] for one in needed} <= {name for name, _ in container}
    steps = [rest for word, rest in instructions(FILE.read_text()) if word == "RUN"]
    locks = set(re.findall(r"requirements/(\w+)\.lock", " ".join(steps)))
    assert locks == {"bootstrap", "container"}
    assert any("libgomp1" in step for step in steps), "llama.cpp does not load without it"


def pinned(name: str) -> set[tuple[str, ...]]:
    """Names and versions, without markers: a package may be for Windows alone in one lock only."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text()
    return set(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


def test_an_unknown_variant_has_no_stage() -> None:
    assert "packages-tpu has no version" in faults(FILE.read_text(), "tpu")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda text: text.replace("USER 10001", "USER root"), "the program runs as root"),
        (lambda text: text.replace("USER 10001\n", ""), "the program runs as root"),
        (lambda text: text.replace("COPY . .", "ADD https://example.org/a.tar /"), "ADD fetches"),
        (lambda text: text.replace("rust:1.95.0-slim-bookworm", "rust:latest"), "rust:latest has no version"),
        (lambda text: text.replace("rust:1.95.0-slim-bookworm", "rust"), "rust has no version"),
        (lambda text: text.replace("WORKDIR /work", "ENV HF_TOKEN=x"), "ENV HF_TOKEN=x stays"),
        (lambda text: text.replace("--require-hashes ", ""), "no digests"),
        (
            lambda text: text.replace("requirements/container.lock requ", "requirements/x.lock requ"),
            "not in the",
        ),
    ],
)
def test_each_fault_is_found(change: Callable[[str], str], fault: str) -> None:
    text = FILE.read_text()
    assert change(text) != text
    assert any(fault in one for one in faults(change(text), "cpu"))


def test_what_is_copied_is_sent_to_the_builder() -> None:
    """Everything is ignored except what is named, so a secret beside the sources never leaves the folder."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "*"
    sent = {line[1:] for line in lines if line.startswith("!")}
    assert {"Cargo.toml", "Cargo.lock", "pyproject.toml", "LICENSE", "cli", "contract", "worker"} <= sent
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    assert {member.split("/")[0] for member in members} <= sent
