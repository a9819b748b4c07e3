"""How people type a request: politeness, either case of letters, missing punctuation, dropped words, typos.

A generator writes one plain sentence; `as_typed` makes of it what somebody would send. Words that the answer
must repeat letter by letter (values, names of columns) are given as `keep` and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .draw import Draw

# What a request may begin with; a polite form can stand before these.
_ORDERS = """
add apply average build calculate change check clean combine complete compute convert correct count create
declare define delete describe draft drop extract fetch fill filter find finish fix flatten format generate
get give grab group implement include index keep list lowercase make map merge move multiply nest normalize
order parse pick print produce pull put read remove rename repair replace reshape restructure return rewrite
round save select serialize set show sort split strip sum swap take tell total transform translate trim turn
unwrap update use wrap write
"""
ORDERS = frozenset(_ORDERS.split())
POLITE = (
    "please {}",
    "can you {}?",
    "could you {}?",
    "could you please {}?",
    "I need you to {}",
    "{}, please",
    "{} please",
    "{}, thanks",
    "{} thx",
    "hi, {}",
    "hey can you {}",
    "pls {}",
    "I'd like you to {}",
    "quick one: {}",
)
POLITE_QUESTION = (
    "hi, {}",
    "quick question: {}",
    "do you know {}",
    "please tell me {}",
    "hey, {}",
    "{} thanks",
)
# Around what is neither an order nor a question: `top 5 customers by revenue`.
POLITE_FRAGMENT = ("hi, {}", "hey, {}", "{} please", "{}, please", "{}, thanks", "quick one: {}")
QUESTION = re.compile(
    r"(how|what|which|who|whose|where|when|why|is|are|was|were|do|does|did|has|have|can|could)\b", re.I
)
FILLERS = ("the", "a", "an", "all", "me", "are", "is", "there", "please")
OPENING = re.compile(r"^(?:what|who|which)(?:'s| is| are) (?:the )?(?=.)", re.I)
# Orders that are also nouns: `total price of orders` asks nobody to total.
NOUNS = re.compile(r"(average|count|sum|total|map|order|split|round)\b(?! (the|all|every|how|which)\b)", re.I)
LISTED = ("{}, {}", "{} and {}", "{} + {}", "{} & {}", "{} with {}", "{} plus {}")
WORD = re.compile(r"[a-z]{5,}")
_HELD = re.compile("\0(\\d+)\0")


def as_typed(
    sentence: str, draw: Draw, keep: Sequence[str] = (), *, small: float = 0.4, small_names: float = 0.0
) -> str:
    """A plain sentence as one of many people would type it; half of them type it as it is, or nearly.
    `small` is how many use small letters only, `small_names` how many of these also write the words to
    keep so."""
    text, kept = _hold(sentence, keep)
    if draw.chance(0.2):
        text = polite(text, draw)
    elif draw.chance(0.12):
        text = telegram(text)
    if draw.chance(0.45):
        text = text.rstrip(".?!")
    if draw.chance(small):
        text = text.lower()
        if small_names and draw.chance(small_names):
            kept = [word.lower() for word in kept]
    elif draw.chance(0.5):
        text = text[:1].upper() + text[1:]
    if draw.chance(0.06):
        text = with_typo(text, draw)
    return _HELD.sub(lambda found: kept[int(found[1])], text)


def polite(text: str, draw: Draw) -> str:
    first = text.split(" ", 1)[0].lower()
    body = (text[:1].lower() + text[1:]).rstrip(".?!")
    if first in ORDERS and not NOUNS.match(text):
        return draw.one(POLITE).format(body)
    if text.endswith("?") or QUESTION.match(text):
        return draw.one(POLITE_QUESTION).format(body) + ("?" if text.endswith("?") else "")
    return draw.one(POLITE_FRAGMENT).format(body)


def telegram(text: str) -> str:
    """Without the words that carry nothing: `show me all the tracks` becomes `show tracks`."""
    words = OPENING.sub("", text.rstrip(".?!")).split(" ")
    # `show artists that are older` has both words or neither.
    words = re.sub(r"\b(?:that|who|which) (?:are|is|were|was) ", "", " ".join(words)).split(" ")
    left = [word for word in words[1:] if word.lower() not in FILLERS or words[0].lower() == "tell"]
    return " ".join([words[0], *left]) if left else text


def with_typo(text: str, draw: Draw) -> str:
    """Two letters swapped, one left out or one typed twice, inside a longer word in small letters."""
    words = list(WORD.finditer(text))
    if not words:
        return text
    word = draw.one(words)
    place = word.start() + draw.between(1, len(word[0]) - 3)
    one, two = text[place], text[place + 1]
    wrong = draw.one([two + one, two, one + one + two])
    return text[:place] + wrong + text[place + 2 :]


def listed(words: Sequence[str], draw: Draw) -> str:
    """Several things one after the other: mostly `a, b and c`, sometimes `a, b, c` or `a + b`."""
    if len(words) == 1:
        return words[0]
    if len(words) == 2:
        return draw.weighted(LISTED, (4, 8, 1, 1, 1, 1)).format(*words)
    last = draw.weighted((" and ", ", ", ", and "), (5, 3, 2))
    return ", ".join(words[:-1]) + last + words[-1]


def quoted(value: str, draw: Draw) -> str:
    """A value inside a sentence: mostly bare, sometimes in quotes."""
    return draw.weighted(("{}", "'{}'", '"{}"'), (7, 2, 2)).format(value)


def plural(noun: str) -> str:
    """Of the last word: `order line` becomes `order lines`."""
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|z|ch|sh)$", noun) else "s")


def _hold(text: str, keep: Sequence[str]) -> tuple[str, list[str]]:
    """Marks in place of the words to keep, longest first, so that nothing below touches them."""
    kept: list[str] = []

    def mark(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\0{len(kept) - 1}\0"

    names = sorted({word for word in keep if word}, key=lambda word: (-len(word), word))
    if names:
        text = re.sub("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names), mark, text)
    return text, kept
