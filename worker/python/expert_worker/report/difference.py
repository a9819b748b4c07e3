"""An answer with the words set off that the reference does not have there."""

import re
from difflib import SequenceMatcher
from html import escape

# Below this, an answer is another text altogether, and marking all of it would say nothing.
_ALIKE = 0.5
# The comparison takes the product of both lengths.
_MOST_PAIRS = 400_000


def marked(answer: str, expected: str) -> str:
    ours, theirs = _words(answer), _words(expected)
    if len(ours) * len(theirs) > _MOST_PAIRS:
        return escape(answer)
    match = SequenceMatcher(None, theirs, ours, autojunk=False)
    if match.ratio() < _ALIKE:
        return escape(answer)
    return "".join(
        _piece(kind, escape("".join(ours[start:end]))) for kind, _, _, start, end in match.get_opcodes()
    )


def _piece(kind: str, words: str) -> str:
    if kind == "equal":
        return words
    return f"<mark>{words}</mark>" if words else '<mark class="gap" title="something is missing here"></mark>'


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)
