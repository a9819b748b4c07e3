"""The manifest's JSON Schema accepts the samples that the Rust checker accepts, where a schema can decide."""

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "manifests"
SCHEMA = json.loads((ROOT / "contract" / "schema" / "manifest.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

# What a schema sees as well; every other code is about text, paths, or several keys at once.
STRUCTURAL = {"unknown-key", "wrong-type", "out-of-range", "unknown-word", "not-an-object"}
MAY_BE_STRUCTURAL = {"missing-key"}
# The text is read on from its first mistake, or by a reader that is stricter than Python's.
TEXTUAL = {
    "duplicate-key",
    "not-finite",
    "number-too-large",
    "control-character",
    "lone-surrogate",
    "byte-order-mark",
    "too-deep",
}


def cases(kind: str) -> list[Path]:
    return sorted((SAMPLES / kind).glob("*.json"))


def codes(case: Path) -> set[str]:
    golden = case.with_suffix(".stderr").read_text(encoding="utf-8")
    return set(re.findall(r"^error\[([a-z0-9-]+)\]", golden, flags=re.MULTILINE))


def document(case: Path) -> Any:
    return json.loads(case.read_text(encoding="utf-8-sig"))


def readable(kind: str) -> list[Path]:
    found = []
    for case in cases(kind):
        if codes(case) & TEXTUAL:
            continue
        try:
            document(case)
        except ValueError:
            continue
        found.append(case)
    return found


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("case", readable("valid"), ids=lambda case: case.stem)
def test_accepted_manifests_are_accepted(case: Path) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(document(case))] == []


@pytest.mark.parametrize("case", readable("invalid"), ids=lambda case: case.stem)
def test_rejected_manifests_are_rejected_where_a_schema_can(case: Path) -> None:
    found = codes(case)
    assert found, "a rejected manifest says why"
    accepted = VALIDATOR.is_valid(document(case))
    if found & STRUCTURAL:
        assert not accepted
    elif not found & MAY_BE_STRUCTURAL:
        assert accepted


def test_most_samples_are_compared() -> None:
    assert len(readable("valid")) >= 45
    assert len(readable("invalid")) >= 100


OWN = sorted((ROOT / "experts").glob("*/manifest.json"))
assert len(OWN) >= 4, "without the experts' manifests their test would be skipped"


@pytest.mark.parametrize("manifest", OWN, ids=lambda path: path.parent.name)
def test_our_own_experts_fit(manifest: Path) -> None:
    VALIDATOR.validate(json.loads(manifest.read_text(encoding="utf-8")))


def found_manifests() -> list[Path]:
    places = [Path(os.environ["EXPERT_SHARED"])] if "EXPERT_SHARED" in os.environ else []
    places += [ROOT / ".." / "shared", ROOT / ".." / ".." / "shared"]
    found = (sorted((place / "real" / "manifests").glob("*.json")) for place in places)
    return next((manifests for manifests in found if manifests), [])


@pytest.mark.skipif("EXPERT_SHARED" not in os.environ, reason="no folder of manifests is named")
def test_the_named_folder_has_manifests() -> None:
    assert list((Path(os.environ["EXPERT_SHARED"]) / "real" / "manifests").glob("*.json"))


@pytest.mark.parametrize("manifest", found_manifests(), ids=lambda path: path.stem)
def test_manifests_as_they_are_found_fit(manifest: Path) -> None:
    VALIDATOR.validate(json.loads(manifest.read_text(encoding="utf-8")))
