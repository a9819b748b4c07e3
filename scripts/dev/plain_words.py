#!/usr/bin/env python3
"""Find phrases that a reader has to decode, in documents, comments, messages, help texts and names.

    python scripts/dev/plain_words.py [PATH...]

Without arguments every tracked text file is checked. Exit code 1 if a phrase was found. In Python and Rust
comments, string literals and names of functions are read; other identifiers are not.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
UNIT = (
    "second|minute|hour|step|row|byte|token|layer|document|file|run|epoch|expert|line|page|task|core|GPU|processor|process|"
    "device|thread|parameter|rule|stage|command|batch|folder|base|key|kind|name|language|operation|machine|level|kernel"
)
COUNTED = (
    "tokens|steps|rows|bytes|documents|seconds|files?|process(?:es)?|GPUs?|threads?|cores?|lines?|parameters|layers|"
    "JSON object|milliseconds|points|workers?|pages?|commands?|examples?|tests?"
)

# (what is found, what to write)
PHRASES: tuple[tuple[str, str], ...] = (
    (r"\bmend(?:s|ed|ing)?\b", "fix"),
    (r"\b(?:go|goes|going|went|gone)\s+on\b", "continue, resume"),
    (r"\banew\b", "again"),
    (r"\b(?:tells?|told|telling)\b", "say, show, report, print"),
    (r"\b(?:lies?|lying)\b(?!\s+about)", "is (in)"),
    (r"\bpass(?:ed|es|ing)?\s+over\b", "skip"),
    (
        r"(?<!there\s)\b(?:is|are|was|were|be)\s+no\s+(?!longer\b|more\b|less\b|fewer\b|later\b|earlier\b|\w+er\s+than\b)\w",
        "is not a",
    ),
    (rf"\b(?:an?|one|two|each|\d+)\s+(?:\w+\s+)?an?\s+(?:{UNIT})\b", "one X per Y"),
    (rf"\b(?:{COUNTED})\s+(?-i:an?)\s+(?:{UNIT})\b", "X per Y"),
    (r"\bbut\s+for\b", "except for"),
    (r"\bas\s+far\s+as\b", "up to, if"),
    (r"\bof\s+(?:its|their|his|her|your|our|one's)\s+own\b", "its own X, a separate X"),
    (
        r"(?:^|[.:;!]\s+)What\s+(?:is|was|were|are|goes|comes|has|had|remains)\s[^.?!]{3,200}\.(?=\s|$)",
        "name the subject",
    ),
    (r"\bseldom\b", "rarely"),
    (r"\blast\s+bits\b", "bytes"),
    (r"\bsays?\s+again\s+what\b", "duplicates"),
    (r"\bdiffers?\s+from\s+nothing\b", "a missing value never counts as a change"),
    (r"\bone\s+under\s+the\s+other\b", "side by side"),
    (r"\bstands?\s+still\b", "makes no progress"),
    (r"\bthe\s+word\s+of\b", "what is recorded"),
    (r"\b(?:is|are|was)\s+heard\b", "receive, arrive"),
    (r"\bbelongs?\s+into\b", "put into, belongs in"),
    (r"(?:^|[.:;!]\s+)(?-i:Such)\s+as\b", "for example"),
    (r"\bhow\s+(?:the|an?)\s+\w+\s+calls\b", "what X calls"),
    (r"\b(?:it|this)\s+concerns\b", "it applies to"),
    (r"\b(?:to\s+use|(?:in|of)\s+an?\s+\w+)\s+at\s+most\b", "maximum X per Y"),
    (r"\bbegun\s+with\b", "started with"),
    (r"\bnobody\s+has\s+(?:tried|seen)\b", "not verified, not measured"),
    (r"\breads?\s+\w+\s+no\s+better\b", "cannot read it either"),
    (r"\b(?:lest|whence|wherein|thereof|hither|kin)\b", "plain English"),
)
PATTERNS = tuple((re.compile(phrase, re.IGNORECASE | re.MULTILINE), plain) for phrase, plain in PHRASES)

# Data, generated files and records of the past are not checked.
SKIPPED = re.compile(
    r"^(?:openspec/changes/|tests/manifests/|contract/schema/|requirements/.*\.lock|LICENSE|Cargo\.lock|benches/results/)"
    r"|^scripts/dev/plain_words\.py$|^tests/dev/test_plain_words\.py$|/datasets/|/generator/(?:literal/)?(?:entities|pipeline|plain|linked)\.py$"
    r"|/authoring/phrasing\.py$|tests/experts/test_phrasing\.py$"
)
READ = re.compile(
    r"\.(?:md|rs|py|toml|yml|yaml|in|sh|jinja)$|^Makefile$|^scripts/ci/\w+$|^\.ci/run$|(?:presets|experts)/.*manifest\.json$|/scaffold/.*\.json$"
)


class Piece(NamedTuple):
    """Some prose and the line on which it begins."""

    line: int
    text: str


class Finding(NamedTuple):
    path: str
    line: int
    phrase: str
    plain: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.phrase}": write: {self.plain}'


# Comment signs, quotes with their prefixes, and the expressions in an f-string.
MARKS = re.compile(r'\{[^{}]*\}|^#+|^[rbfuRBFU]*(?:"""|"|\')|(?:"""|"|\')$')


# Python 3.12 and later split f-strings into tokens.
FSTRING = {name: getattr(tokenize, f"FSTRING_{name}", -1) for name in ("START", "MIDDLE", "END")}
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def python_prose(source: str) -> Iterator[Piece]:
    """Comments, strings and names of functions. Strings that Python joins are one piece, as are comment lines
    that follow each other."""
    begun, text, last, kind, fstrings, defines = 0, "", -2, 0, 0, False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        fstrings += (token.type == FSTRING["START"]) - (token.type == FSTRING["END"])
        if token.type in (tokenize.STRING, tokenize.COMMENT, FSTRING["MIDDLE"]):
            now = tokenize.COMMENT if token.type == tokenize.COMMENT else tokenize.STRING
            if now != kind or token.start[0] - last > 1:
                yield Piece(begun, text)
                begun, text, kind = token.start[0], "", now
            missing = token.start[0] - begun - text.count("\n")
            text += "\n" * missing + " " + MARKS.sub("", token.string)
            last = token.end[0]
        elif token.type not in LAYOUT and not fstrings:
            kind = 0
        if defines:
            yield Piece(token.start[0], spoken(token.string))
        defines = token.string == "def"
    yield Piece(begun, text)


def spoken(name: str) -> str:
    """A function's name as words: `test_it_runs` as `it runs`."""
    return name.removeprefix("test_").replace("_", " ")


RUST = re.compile(
    r"(?P<comment>(?://[^\n]*\n[ \t]*)+)"
    r'|r(?P<hashes>#*)"(?P<raw>.*?)"(?P=hashes)'
    r'|"(?P<text>(?:\\.|[^"\\])*)"'
    r"|'(?:\\.[^']*|[^'\\])'"
    r"|\bfn (?P<name>\w+)",
    re.DOTALL,
)


def rust_prose(source: str) -> Iterator[Piece]:
    for found in RUST.finditer(source):
        text = found["comment"] or found["raw"] or found["text"] or spoken(found["name"] or "")
        if text:
            line = source.count("\n", 0, found.start()) + 1
            text = re.sub(r"(?m)^[ \t]*//[/!]?", "", text) if found["comment"] else text.replace("\\\n", "\n")
            yield Piece(line, text)


def prose(path: str, source: str) -> Iterator[Piece]:
    if path.endswith(".py"):
        yield from python_prose(source)
    elif path.endswith(".rs"):
        yield from rust_prose(source)
    elif path.endswith(".md"):
        yield Piece(1, source)
    else:
        yield Piece(1, re.sub(r"(?m)^[ \t]*#+", "", source))


def check(path: str, source: str) -> Iterator[Finding]:
    for piece in prose(path, source):
        for pattern, plain in PATTERNS:
            for found in pattern.finditer(piece.text):
                line = piece.line + piece.text.count("\n", 0, found.start())
                phrase = " ".join(found[0].split()).strip(".:;! ")
                yield Finding(path, line, phrase if len(phrase) < 60 else phrase[:57] + "...", plain)


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    return [path for path in listed.splitlines() if READ.search(path) and not SKIPPED.search(path)]


def main(arguments: list[str]) -> int:
    chosen = [
        path for path in tracked() if not arguments or any(path.startswith(prefix) for prefix in arguments)
    ]
    found = [it for path in chosen for it in check(path, (REPOSITORY / path).read_text(encoding="utf-8"))]
    for finding in found:
        print(finding)
    if found:
        files = len({it.path for it in found})
        print(f"{len(found)} phrases that are not plain technical English, in {files} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
