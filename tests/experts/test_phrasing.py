"""Requests as people type them: many forms of one sentence, the words that an answer repeats untouched."""

from collections import Counter

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import as_typed, listed, plural, telegram, with_typo

SENTENCE = "Show the titles of all films with rating PG-13 and length above 120."
KEEP = ("PG-13", "120")


def forms(sentence: str, keep: tuple[str, ...], count: int = 600) -> list[str]:
    return [as_typed(sentence, Draw(f"form/{number}"), keep) for number in range(count)]


def test_values_stay_as_they_are_in_every_form() -> None:
    assert all("PG-13" in text and "120" in text for text in forms(SENTENCE, KEEP))


def test_without_a_word_to_keep_its_letters_may_change() -> None:
    assert any("PG-13" not in text for text in forms(SENTENCE, ()))


def test_one_sentence_has_many_forms_and_none_is_everywhere() -> None:
    seen = Counter(forms(SENTENCE, KEEP))
    assert len(seen) > 60
    assert seen.most_common(1)[0][1] < 0.3 * seen.total()
    assert any(text.lower().startswith(("please", "could you", "can you")) for text in seen)
    assert any(text.islower() for text in forms("Show the titles of films.", ()))


def test_a_draw_gives_the_same_form_in_each_process() -> None:
    """Rows are made again with the same bytes, whatever the hashes of texts are in a process."""
    expected = {
        "form/6": "please show the titles of all films with rating PG-13 and length above 120",
        "form/11": "show titles of films with rating PG-13 and length above 120",
        "form/17": "show the titles of all films with raing PG-13 and length above 120, thanks",
        "form/19": "Show the titles of all films with rating PG-13 and legnth above 120.",
    }
    assert {seed: as_typed(SENTENCE, Draw(seed), KEEP) for seed in expected} == expected


def test_a_question_stays_one() -> None:
    for text in forms("How many films are there?", ()):
        assert "many" in text.lower() or "mny" in text or "how" in text.lower()
        assert not text.lower().startswith(("can you how", "could you how"))


def test_a_fragment_is_not_asked_as_a_question() -> None:
    typed = forms("Top 5 customers by revenue", ())
    assert any(text.lower().startswith(("hi, top", "hey, top")) for text in typed)
    assert not any("do you know" in text or "tell me" in text for text in typed)


def test_a_noun_is_not_an_order() -> None:
    typed = forms("Total price of orders", ())
    assert not any("can you total" in text.lower() or "please total" in text.lower() for text in typed)
    assert any("can you total" in text.lower() for text in forms("Total the prices of orders", ()))


def test_a_typo_changes_one_place_of_a_longer_word() -> None:
    for number in range(200):
        wrong = with_typo("list the customers", Draw(f"typo/{number}"))
        assert wrong.startswith("list the c")
        assert abs(len(wrong) - len("list the customers")) <= 1
    assert with_typo("a b c", Draw("x")) == "a b c"


def test_words_that_carry_nothing_go_in_a_telegram() -> None:
    assert telegram("Show me all the tracks of the album") == "Show tracks of album"
    assert telegram("What is the oldest track?") == "oldest track"
    assert telegram("List tracks that are older than this") == "List tracks older than this"
    assert telegram("How many tracks are there?") == "How many tracks"


def test_lists_and_plurals() -> None:
    assert {listed(["a", "b"], Draw(str(n))) for n in range(200)} >= {"a, b", "a and b", "a + b"}
    assert {listed(["a", "b", "c"], Draw(str(n))) for n in range(50)} == {
        "a, b and c",
        "a, b, c",
        "a, b, and c",
    }
    assert [plural(noun) for noun in ("film", "category", "bus", "day", "batch")] == [
        "films", "categories", "buses", "days", "batches",
    ]  # fmt: skip
