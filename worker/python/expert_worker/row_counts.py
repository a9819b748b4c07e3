"""The row ledger in words, for pages that people read."""

from collections.abc import Iterator, Mapping

WORDS: Mapping[str, str] = {
    "read": "rows read",
    "used": "rows used",
    "bad": "bad, left out",
    "truncated": "truncated, too long",
    "split_rows": "split",
    "dropped_pieces": "pieces of split rows dropped, nothing to learn",
    "dropped_tokens": "tokens in these pieces",
    "dropped_overlong": "dropped, too long",
    "dropped_unsupervised": "dropped, nothing to learn",
    "dropped_duplicate": "dropped, seen before",
    "dropped_near": "dropped, near copies of earlier ones",
    "dropped_short": "dropped, too few characters",
    "dropped_long": "dropped, too many characters",
    "dropped_mixture": "left out by the mixture",
    "repeated": "repeated by the mixture",
    "unanswered": "with trailing messages left out, which have no answer",
    "thoughts_left_out": "with thoughts that the chat template leaves out",
    "parsed_dialogues": "texts read as dialogues",
    "tokens": "tokens",
    "supervised_tokens": "tokens learned from",
    "scored_tokens": "tokens scored",
}
"""In reading order. Counts that have no words here say how rows were processed, not what became of them."""


def in_words(counts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Every count above 0, and the rows that were read and used even if there are none."""
    for name, words in WORDS.items():
        count = counts.get(name, 0)
        if count or (name in ("read", "used") and name in counts):
            yield words, count
