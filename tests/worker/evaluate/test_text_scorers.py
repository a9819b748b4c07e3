"""contains, classification, ROUGE and chrF: scores against values worked out by hand, in the sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plans import example_plan

from expert_worker.errors import BadInput, ExpertError, Missing
from expert_worker.evaluate import scorers
from expert_worker.evaluate.classes import class_scores
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scored_rows import scored_rows
from expert_worker.evaluate.scorers import ChosenScorer, check_scorer, chosen_scorer, scorer_of
from expert_worker.evaluate.scorers.classification import Labels
from expert_worker.plan import Plan, parse_plan
from expert_worker.results import Answer

LABELS = ["positive", "not positive", "n/a"]


def verdicts(scorer: ChosenScorer, *asked: tuple[dict[str, Any], str]) -> list[tuple[float, str]]:
    """Scores and reasons of rows and answers, by one child."""
    found = judge_all(scorer, [row for row, _ in asked], [text for _, text in asked])
    assert not any(it.failed for it in found), [it.reason for it in found]
    return [(it.score, it.reason) for it in found]


def test_contains_looks_for_the_reference_or_for_each_listed_text() -> None:
    listed = {"completion": "", "contains": ["red", "green", "blue", "grey"]}
    found = verdicts(
        ChosenScorer("contains"),
        ({"completion": "New  York"}, "It is in NEW\nYORK, I think."),
        ({"completion": "York"}, "London"),
        (listed, "Green and red."),
        ({"completion": "York", "contains": None}, "New York"),
    )
    assert found == [
        (1, ""),
        (0, "does not contain 'York'"),
        (0.5, "does not contain 'blue', 'grey'"),
        (1, ""),
    ]


@pytest.mark.parametrize("scorer", ["exact", "contains", "regex", "rouge", "chrf"])
def test_thoughts_do_not_belong_to_an_answer(scorer: str) -> None:
    row = {"completion": "Paris"}
    right, wrong = verdicts(
        ChosenScorer(scorer), (row, "<think>\nRome?\n</think>\n\nParis"), (row, "<think>Paris</think>Rome")
    )
    assert right == (1, "") and wrong[0] < 0.5
    thought = {"completion": "<think>Rome?</think>Paris"}
    assert verdicts(ChosenScorer(scorer), (thought, "Paris")) == [(1, "")]


def test_a_pattern_keeps_the_spaces_at_its_end() -> None:
    row = {"completion": r"<think>a\ </think>\d+\ ?"}
    assert verdicts(ChosenScorer("regex"), (row, "12")) == [(1, "")]
    row = {"completion": "\\d+\\ "}
    assert verdicts(ChosenScorer("regex"), (row, "12"))[0][0] == 0


def test_backticks_around_the_whole_answer_do_not_count() -> None:
    row = {"completion": "yes"}
    found = verdicts(ChosenScorer("exact"), (row, "`yes`"), (row, "~~~\nyes\n~~~"), (row, "It is `yes`"))
    assert [score for score, _ in found] == [1, 1, 0]


def test_a_pattern_of_null_is_absent() -> None:
    row = {"completion": r"\d+", "pattern": None}
    assert verdicts(ChosenScorer("regex"), (row, "12"), (row, "None"))[0] == (1, "")


NAMED = {
    "positive": "positive",
    " Positive.\n": "positive",
    "**Not positive**": "not positive",
    "The review is not  positive.": "not positive",
    "```\nN/A\n```": "n/a",
    "positively": None,
    "positive or n/a": None,
    "": None,
    "I cannot say": None,
}


@pytest.mark.parametrize("answer", NAMED)
def test_an_answer_names_one_label_or_none(answer: str) -> None:
    assert Labels(LABELS).of(answer) == NAMED[answer]


LETTERS = {
    "B": "B",
    "b": "B",
    "(B)": "B",
    "B) a dog": "B",
    "**B.** A dog, not a cat": "B",
    "B\nIt is a dog": "B",
    "Answer: B) a dog": "B",
    "The answer is B, because A is a cat.": "B",
    "I would say C.": "C",
    "It is a dog": None,
    "A dog": "A",
    "It is A or B": None,
    "The answer is A or B": None,
    "The answer is (A), B, or **C**": None,
    "The answer is A/B.": None,
    "A) or B)": None,
    "The answer is B, A is a cat": "B",
    "The answer is B. And A is a cat.": "B",
    "A) a cat\nB) a dog": None,
    "The answer is A. No, the answer is B.": None,
    "None of A and B": None,
    "none": "none",
    "Bad": None,
}


@pytest.mark.parametrize("answer", LETTERS)
def test_a_label_of_one_letter_is_not_the_article_a(answer: str) -> None:
    assert Labels(["A", "B", "C", "D", "none"]).of(answer) == LETTERS[answer]


@pytest.mark.parametrize(
    ("labels", "answer", "named"),
    [
        (["C", "C++", "C#", "Java"], "The language is C++.", "C++"),
        (["C", "C++", "C#", "Java"], "The answer is c++", "C++"),
        (["C", "C++", "C#", "Java"], "C#: yes", "C#"),
        (["C", "C++", "C#", "Java"], "C: yes, and not C++", "C"),
        (["C", "C++", "C#", "Java"], "It is C, not C++", None),
        (["N/A", "Y", "N"], "The answer is N/A", "N/A"),
        (["N/A", "Y", "N"], "The answer is N", "N"),
        (["A", "A+", "B"], "The answer is A+.", "A+"),
        (["A", "A  cat"], "It is a\ncat.", "A  cat"),
        (["X", "Straße"], "Eine STRASSE.", "Straße"),
        (["X", "Bing"], "It is bıng.", None),
        (["X", " "], "It is Y.", None),
    ],
)
def test_a_label_of_one_letter_is_not_the_beginning_of_a_longer_one(
    labels: list[str], answer: str, named: str | None
) -> None:
    assert Labels(labels).of(answer) == named


STARS = ["1", "2", "3", "4", "5"]
FEELINGS = ["积极", "消极"]
MAIL = ["spam", "ham", "not_spam"]


@pytest.mark.parametrize(
    ("labels", "named", "answers"),
    [
        (
            STARS,
            "4",
            ["4", "4.", "4, since", "Rating:4", "(4)", "**4**", "_4_", "4.0", "4-star", "4: good", "评分4分"],
        ),
        (
            STARS,
            None,
            ["4.5", "1.4", "-4", "\u22124", "+4", "4%", "4 %", "$4", "4€", "10:4", "4:30", "4,5", "1,400"],
        ),
        (STARS, None, ["4/5", "4 out of 5", "3-4", "2026-11-29"]),
        (["0", "1"], None, ["0.5", "-1", "10"]),
        (["-1", "1", "+1"], "-1", ["-1", "It is -1."]),
        (["18-24", "25-34"], "18-24", ["Age: 18-24."]),
        (["gpt-4", "gpt-3"], None, ["It is gpt-4.5"]),
        (FEELINGS, "积极", ["这是积极的", "情感：积极", "「积极」", "积极"]),
        (FEELINGS, None, ["不积极", "积极或消极"]),
        (["是", "否"], "是", ["是的", "是。", "答案：是", "是"]),
        (["是", "否"], None, ["不是", "可是"]),
        (["สวัสดี", "ลาก่อน"], "สวัสดี", ["คำตอบคือสวัสดีครับ"]),
        (["ดี", "แย่"], None, ["ไม่ดี"]),
        (["긍정", "부정"], "긍정", ["이 리뷰는 긍정입니다"]),
        (["긍정", "부정"], None, ["비긍정"]),
        (["ポジティブ", "ネガティブ"], "ポジティブ", ["これはポジティブです"]),
        (MAIL, "spam", ["_spam_", "__spam__", "The label is _spam_.", "这是spam邮件", "spam입니다"]),
        (MAIL, "spam", ["<think>\nham or spam?\n</think>\nspam", "`spam`"]),
        (MAIL, "not_spam", ["not_spam", "It is not_spam."]),
        (MAIL, None, ["label_spam", "spam_filter", "ham__x", "spammy"]),
    ],
)
def test_a_label_is_not_a_part_of_a_longer_word_or_number(
    labels: list[str], named: str | None, answers: list[str]
) -> None:
    assert {answer: Labels(labels).of(answer) for answer in answers} == dict.fromkeys(answers, named)


def test_an_answer_that_names_its_label_is_right() -> None:
    asked = [({"completion": (label or "positive").upper()}, answer) for answer, label in NAMED.items()]
    found = verdicts(ChosenScorer("classification", {"labels": LABELS}), *asked)
    assert [score for score, _ in found] == [label is not None for label in NAMED.values()]


def test_a_wrong_label_is_named() -> None:
    row = {"completion": "n/a"}
    scorer = ChosenScorer("classification", {"labels": LABELS})
    found = verdicts(scorer, (row, "positive"), (row, "positive, n/a"))
    assert found == [(0, "'positive' instead of 'n/a'"), (0, "names 2 labels: 'positive, n/a'")]


def test_f1_and_confusion_by_hand() -> None:
    wanted = ["a", "a", "a", "a", "b", "b"]
    said = ["a", "a", "b", "neither", "b", "a or b"]
    rows = [{"completion": label} for label in wanted]
    answers = [Answer(text=text, correct=False, reason="") for text in said]
    found = class_scores(["a", "b", "c"], rows, None, answers)
    assert found.labels == ("a", "b", "c") and found.base is None
    assert found.adapter is not None
    assert found.adapter.confusion == ((2, 1, 0, 1), (0, 1, 0, 1), (0, 0, 0, 0))
    first, second, third = found.adapter.by_label
    assert (first.rows, first.precision, first.recall, first.f1) == (4, 1, 0.5, pytest.approx(2 / 3))
    assert (second.rows, second.precision, second.recall, second.f1) == (2, 0.5, 0.5, 0.5)
    assert (third.rows, third.f1) == (0, 0)
    assert found.adapter.macro_f1 == pytest.approx((2 / 3 + 0.5) / 2), "c occurs nowhere"


def test_rouge_by_hand() -> None:
    row = {"completion": "the cat sat on the mat"}
    answer = "The cat lay on the mat."
    for variant, f1 in (("rouge1", 5 / 6), ("rouge2", 3 / 5), ("rougeL", 5 / 6)):
        scorer = ChosenScorer("rouge", {"kind": "rouge", "variant": variant})
        ((score, reason),) = verdicts(scorer, (row, answer))
        assert score == pytest.approx(f1)
        assert reason == f"precision {f1:.2f}, recall {f1:.2f}"
    umlauts = {"completion": "Größe über alles"}, "größe über Alles!"
    whole, empty = verdicts(ChosenScorer("rouge"), umlauts, ({"completion": "b a"}, ""))
    assert whole == (1, "") and empty[0] == 0


@pytest.mark.parametrize(
    ("reference", "answer", "f1"),
    [
        ("हिन्दी भाषा", "हिन्दी, भाषा।", 1),
        ("हिन्दी भाषा", "हिन्दू भूषा", 0),
        ("हिन्दी भाषा", "हिन्दी भूषा", 1 / 2),
        ("गाँव में", "गांव में", 1 / 2),
        ("cafe\u0301", "caf\u00e9", 1),
        ("这是积极的。", "这是消极的", 4 / 5),
        ("ดีมาก", "ดีจัง", 2 / 7),
        ("GPT4 模型", "gpt4模型", 1),
        ("a_b", "a b", 1),
    ],
)
def test_rouge_reads_words_of_any_script(reference: str, answer: str, f1: float) -> None:
    ((score, _),) = verdicts(
        ChosenScorer("rouge", {"kind": "rouge", "variant": "rouge1"}), ({"completion": reference}, answer)
    )
    assert score == pytest.approx(f1)


def test_chrf_by_hand() -> None:
    asked = {"Straße": "Straße", "abc": "xyz", "abcd": "abce"}
    pairs = [({"completion": reference}, answer) for reference, answer in asked.items()]
    whole, none, (score, reason) = verdicts(ChosenScorer("chrf"), *pairs)
    assert whole == (1, "") and none[0] == 0
    # 3 of 4 letters, 2 of 3 pairs, 1 of 2 triples and no quadruple are shared; precision is recall.
    assert score == pytest.approx((3 / 4 + 2 / 3 + 1 / 2 + 0) / 4, abs=1e-6)
    assert reason == f"chrF {100 * score:.1f}"


def test_a_missing_package_is_named_before_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    check_scorer("rouge")
    monkeypatch.setitem(scorers.PACKAGES, "rouge", ("no_such_module", "rouge-score"))
    with pytest.raises(Missing, match="needs the package rouge-score") as refused:
        check_scorer("rouge")
    assert "pip install 'expert-worker[text-metrics]'" in (refused.value.hint or "")


def classified(folder: Path, settings: Any, completions: list[str]) -> Any:
    path = folder / "test.jsonl"
    lines = [json.dumps({"prompt": "?", "completion": completion}) + "\n" for completion in completions]
    path.write_text("".join(lines))
    source = {"name": "test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    changes = {
        "recipe.data.test": [source],
        "recipe.data.validation": [],
        "recipe.evaluation.scorer": "classification",
        "recipe.evaluation.scorer_settings": settings,
        "machine.paths.data": {"test.jsonl": str(path)},
    }
    return example_plan(folder, changes)


def chosen(plan: Plan) -> ChosenScorer:
    return chosen_scorer(plan.recipe.evaluation, plan.recipe.data, plan.machine.paths)


def test_labels_are_given_or_those_of_the_rows(tmp_path: Path) -> None:
    plan = classified(tmp_path, None, ["no", "yes", "no"])
    assert chosen(plan).settings == {"labels": ["no", "yes"]}
    assert len(scored_rows(plan).main) == 3
    given = classified(tmp_path, {"kind": "classification", "labels": ["yes", "maybe"]}, ["yes", "no"])
    with pytest.raises(BadInput, match=r"1 of 2 .* none of the labels yes, maybe: .*:2: 'no'$"):
        scored_rows(given)
    for texts in (["yes"], [str(number) for number in range(201)]):
        with pytest.raises(ExpertError, match=f"are {len(texts)} different texts"):
            chosen(classified(tmp_path, None, texts))


@pytest.mark.parametrize("where", ["named", "installed", "trained here"])
def test_labels_of_validation_rows_count_where_these_rows_are_here(tmp_path: Path, where: str) -> None:
    """Files of an installed package, and those beside rows of --data, may be absent."""
    plan = classified(tmp_path, None, ["no", "yes"])
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    path = tmp_path / "validation.jsonl"
    document["recipe"]["data"]["validation"] = [
        {"name": path.name, "format": "jsonl", "weight": 1.0, "task": None}
    ]
    document["machine"]["paths"]["data"][path.name] = str(path)
    if where == "named":
        document["request"] = {"stage": "evaluate", "adapter": "somewhere", "other_rows": "file"}
    elif where == "installed":
        folder = Path(plan.machine.paths.expert_dir)
        folder.mkdir()
        (folder / "expert.json").write_text("{}")
    asked = parse_plan(json.dumps(document))
    if where == "trained here":
        with pytest.raises(BadInput, match="is not there"):
            scorer_of(asked)
    else:
        assert scorer_of(asked).settings == {"labels": ["no", "yes"]}
        assert len(scored_rows(asked).main) == 2
    path.write_text('{"prompt": "?", "completion": "maybe"}\n')
    assert scorer_of(asked).settings == {"labels": ["maybe", "no", "yes"]}


def test_labels_are_those_of_references_without_thoughts_and_fences(tmp_path: Path) -> None:
    texts = ["<think>It sells.</think>\nspam", "<think>A friend.</think>\nham", "```\nspam\n```"]
    plan = classified(tmp_path, None, texts)
    scorer = chosen(plan)
    assert scorer.settings == {"labels": ["ham", "spam"]}
    rows = scored_rows(plan).main
    assert [score for score, _ in verdicts(scorer, *zip(rows, ["spam", "ham", "ham"], strict=True))] == [
        1,
        1,
        0,
    ]
    given = [Answer(text=text, correct=True, reason="") for text in texts]
    found = class_scores(["ham", "spam"], rows, None, given).adapter
    assert found is not None and found.confusion == ((1, 0, 0), (0, 2, 0))
