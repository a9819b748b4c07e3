"""A grammar in GBNF as llguidance takes it. Nothing here needs torch.

llama.cpp reads GBNF character by character. llguidance's lexer takes the longest text that a terminal has,
whatever must follow: of `[a-z.]+ "." [a-z]+` the first part would take all, and no answer would be complete.
So the whole grammar is one terminal, or no terminal is longer than a character.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

_ROOT = "root"
_ANY = "/(?s:.)/"


def forms(text: str) -> list[str]:
    """The same grammar in Lark, the better form first. One terminal is fast however ambiguous it is, but
    cannot have rules that lead to themselves, and can be too large."""
    from llguidance.gbnf_to_lark import GrammarParser

    rules = GrammarParser().parse(_plain_characters(text))
    leads = _leads(rules)
    try:
        TopologicalSorter(leads).prepare()
    except CycleError:
        return [_lark(rules, list(leads), one_terminal=False)]
    return [_lark(rules, list(leads), one_terminal=one) for one in (True, False)]


def _leads(rules: Mapping[str, Any]) -> dict[str, list[str]]:
    """Of each rule that an answer may have: the rules in it."""
    found: dict[str, list[str]] = {}
    wanted = [_ROOT]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        if name not in rules:
            raise ValueError(f"there is no rule {name}")
        found[name] = _names(rules[name])
        wanted += found[name]
    return found


def _names(node: Any) -> list[str]:
    from llguidance import gbnf_to_lark as read

    if isinstance(node, read.RuleRefNode):
        return [node.name]
    return [name for child in node.children() for name in _names(child)]


def _lark(rules: Mapping[str, Any], names: list[str], *, one_terminal: bool) -> str:
    # A name in capitals is a terminal. In GBNF `Item` and `item` are two rules, and names have `-`.
    known = {name: f"{'T' if one_terminal else 'r'}{place}" for place, name in enumerate(names)}
    lines = [f"{known[name]}: {_written(rules[name].alternatives, known)}\n" for name in names]
    return f"%llguidance {{}}\nstart: {known[_ROOT]}\n" + "".join(lines)


def _written(node: Any, known: Mapping[str, str]) -> str:
    """Without parentheses around it: llguidance has less room for them than GBNF has rules."""
    from llguidance import gbnf_to_lark as read

    if isinstance(node, read.RuleRefNode):
        return known[node.name]
    if isinstance(node, read.LiteralNode):
        return " ".join(f"/[{_point(part)}]/" for part in _characters(node.value)) or '""'
    if isinstance(node, read.RegexNode):
        return _ANY if node.rx == "." else _set(node.rx[1:-1])
    if isinstance(node, read.RepetitionNode):
        least, most = node.min_times, "" if node.max_times is None else node.max_times
        return '""' if most == 0 else f"({_written(node.node, known)}){{{least},{most}}}"
    parts = [_written(child, known) for child in node.children()]
    if isinstance(node, read.AlternativeNode):
        return " | ".join(parts)
    grouped = [isinstance(child, read.AlternativeNode) and len(parts) > 1 for child in node.children()]
    return " ".join(f"({part})" if it else part for part, it in zip(parts, grouped, strict=True)) or '""'


def _set(inner: str) -> str:
    parts = _characters(inner.removeprefix("^"))
    found = ""
    while parts:
        found += _point(parts.pop(0))
        if len(parts) > 1 and parts[0] == "-":
            found += f"-{_point(parts[1])}"
            parts = parts[2:]
    if not inner.startswith("^"):
        return f"/[{found}]/"
    return f"/[^{found}]/" if found else _ANY


def _characters(text: str) -> list[str]:
    return re.findall(r"\\x..|\\.|.", text, flags=re.DOTALL)


def _point(part: str) -> str:
    """A character, or an escape of one, in a regular expression."""
    if part.startswith("\\x"):
        code = int(part[2:], 16)
    else:
        code = ord({"\\n": "\n", "\\r": "\r", "\\t": "\t"}.get(part, part[-1]))
    return f"\\u{{{code:x}}}"


def _plain_characters(text: str) -> str:
    """llguidance's reader takes `\\u` and `\\U` without their zeros."""

    def plain(found: re.Match[str]) -> str:
        code = int(found[1] or found[2] or "-1", 16)
        return found[0] if code < 0 else f"\\x{code:02x}" if code < 0x80 else chr(code)

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)", plain, text, flags=re.DOTALL)
