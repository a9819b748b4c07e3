"""No number in the README without a result behind it."""

import json
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
RESULTS = REPOSITORY / "benches" / "results"
DOCUMENT = json.loads((REPOSITORY / "benches" / "claims.json").read_text())
WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
SHOWN = {
    "whole": lambda value: f"{value:,.0f}",
    "percent": lambda value: f"{value * 100:.0f}",
    "minutes": lambda value: f"{value / 60:.0f}",
    "minutes in words": lambda value: WORDS[round(value / 60)],
    "ratio": lambda value: f"{value:.1f}",
    "hundredths": lambda value: f"{value:.2f}",
    "two digits": lambda value: f"{value:.2g}",
}


def prose() -> str:
    """Without examples: what stands indented or between backticks is shown, not claimed."""
    lines = (REPOSITORY / "README.md").read_text().splitlines()
    text = " ".join(line for line in lines if not re.match(r" {4}|\\s{6}|\t", line))
    return re.sub(r"`[^`]*`", "``", re.sub(r"\s+", " ", text))


def at(file: str, pointer: str):
    value = json.loads((RESULTS / file).read_text())
    for token in pointer.strip("/").split("/"):
        value = value[int(token)] if isinstance(value, list) else value[token]
    return value


@pytest.mark.parametrize("claim", DOCUMENT["claims"], ids=lambda claim: claim["text"][:40])
def test_a_claim_says_what_was_measured(claim):
    found = re.search(claim["text"], prose())
    assert found, "the README does not say so (any more)"
    expected = [SHOWN[it["as"]](at(it["file"], it["pointer"])) for it in claim["values"]]
    assert list(found.groups()) == expected
    if "zero" in claim:
        assert at(**claim["zero"]) == 0


def test_every_number_is_a_claim_or_no_measurement():
    text = prose()
    for known in (*DOCUMENT["claims"], *DOCUMENT["not_measured"]):
        text = re.sub(known["text"], " ", text)
    # The target of a link does not count as a claim.
    text = re.sub(r"\]\([^)]*\)", "]", text)
    numbers = re.finditer(r"(?<![A-Za-z\d])\d[\d.,]*", text)
    left = [text[max(0, it.start() - 40) : it.end() + 20] for it in numbers]
    assert left == [], "numbers without a result behind them: add them to benches/claims.json"
