"""Several sampled answers to a row: the same each time, what a choice of k holds, and what a vote takes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch
from evaluate import tiny
from peft import PromptTuningConfig, get_peft_model

from expert_worker.evaluate import rows_at_once
from expert_worker.evaluate.decode import Prompt, answer_all, sample_all
from expert_worker.evaluate.headroom import Distinct, pass_at, sampled_scores, sizes_up_to, voted
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scores import verdicts_of
from expert_worker.evaluate.verdict import Verdict
from expert_worker.plan import Decoding, Samples

WARM = Decoding(temperature=0.9, top_p=0.95, top_k=50, min_p=0.0, stop_sequences=(), max_new_tokens=12)
TABLE = [{"table": "t", "rows": 9, "columns": [["id", "key"], ["price", "int", 1, 99]]}]
SQL = {"schema": TABLE, "seed": "s", "completion": "SELECT price FROM t"}


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt(tiny.tokenizer()(text)["input_ids"]) for text in texts]


def sampled(asked: list[Prompt], count: int, seed: int = 5, model: Any = None) -> list[list[str]]:
    return sample_all(model or tiny.model(), tiny.tokenizer(), asked, WARM, count, seed=seed)


def test_samples_depend_on_their_prompt_and_the_seed_alone() -> None:
    model, asked = tiny.model(), prompts("a", "some longer question", "why?")
    before = torch.get_rng_state()
    together = sampled(asked, 4, model=model)
    assert [sampled([prompt], 4, model=model)[0] for prompt in reversed(asked)] == together[::-1]
    assert sampled(asked, 4, seed=6, model=model) != together
    assert torch.equal(before, torch.get_rng_state())
    assert all(len(set(texts)) > 1 for texts in together)


def test_a_prompt_is_computed_once_for_all_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """More samples than rows in a batch continue from the same keys and values."""
    monkeypatch.setattr(rows_at_once, "CPU_ROWS", 3)
    model, seen = tiny.model(), list[tuple[int, int]]()
    forward = model.forward

    def noted(input_ids: torch.Tensor, **rest: Any) -> Any:
        seen.append((input_ids.shape[0], input_ids.shape[1]))
        return forward(input_ids=input_ids, **rest)

    monkeypatch.setattr(model, "forward", noted)
    (prompt,) = prompts("some longer question")
    (texts,) = sampled([prompt], 7, model=model)
    assert len(texts) == 7
    assert seen[0] == (1, len(prompt.ids) - 1)
    assert all(width == 1 for _, width in seen[1:]), "no token of the prompt is computed twice"
    assert {rows for rows, _ in seen[1:]} == {3, 1}


def test_what_continues_from_a_shared_prompt_is_what_a_whole_prompt_gives() -> None:
    """With the likeliest token only, samples are the greedy answer."""
    model, asked = tiny.model(), prompts("a", "some longer question", "why?")
    likeliest = WARM.model_copy(update={"top_k": 1})
    greedy = answer_all(model, tiny.tokenizer(), asked, WARM.model_copy(update={"temperature": 0.0}))
    assert sample_all(model, tiny.tokenizer(), asked, likeliest, 2) == [[it.text] * 2 for it in greedy]
    assert len(set(greedy)) > 1


def test_samples_of_several_prompts_share_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter prompts are padded; nothing of a prompt is computed again for its samples."""
    monkeypatch.setattr(rows_at_once, "CPU_ROWS", 9)
    model, seen = tiny.model(), list[tuple[int, int]]()
    forward = model.forward

    def noted(input_ids: torch.Tensor, **rest: Any) -> Any:
        seen.append((input_ids.shape[0], input_ids.shape[1]))
        return forward(input_ids=input_ids, **rest)

    asked = prompts("why is it so?", "hm", "some longer question", "and?")
    alone = [sampled([prompt], 4, model=model)[0] for prompt in asked]
    monkeypatch.setattr(model, "forward", noted)
    assert sampled(asked, 4, model=model) == alone
    wide = [(rows, width) for rows, width in seen if width > 1]
    assert [rows for rows, _ in wide] == [2, 2] and wide[-1][1] == max(len(it.ids) for it in asked) - 1
    assert {rows for rows, width in seen if width == 1} == {8}


def test_a_soft_prompt_is_sampled_too() -> None:
    """Its virtual tokens come before the text, so that the text alone cannot be computed first."""
    model = get_peft_model(
        tiny.model(), PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")
    ).eval()
    asked = prompts("why?")
    greedy = answer_all(model, tiny.tokenizer(), asked, WARM.model_copy(update={"temperature": 0.0}))
    likeliest = WARM.model_copy(update={"top_k": 1})
    assert sample_all(model, tiny.tokenizer(), asked, likeliest, 2) == [[it.text for it in greedy] * 2]


def test_stop_sequences_end_samples() -> None:
    (texts,) = sampled(prompts("a"), 4)
    stop = next(text for text in texts if len(text) > 2)[1]
    ending = WARM.model_copy(update={"stop_sequences": (stop,)})
    (ended,) = sample_all(tiny.model(), tiny.tokenizer(), prompts("a"), ending, 4, seed=5)
    assert not any(stop in text for text in ended) and ended != texts


def test_a_stop_leaves_the_other_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_at_once, "CPU_ROWS", 2)
    done: list[int] = []
    asked = prompts("a", "b", "c")
    stopped = sample_all(
        tiny.model(),
        tiny.tokenizer(),
        asked,
        WARM,
        2,
        each_batch=done.append,
        stop_asked=lambda: len(done) > 0,
    )
    assert done == [1] and [len(texts) for texts in stopped] == [2, 0, 0]


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_the_sizes_double(count: int, sizes: list[int]) -> None:
    assert sizes_up_to(count) == sizes


@pytest.mark.parametrize("right", range(6))
@pytest.mark.parametrize("k", range(1, 6))
def test_pass_at_k_is_the_share_of_choices_with_a_right_one(right: int, k: int) -> None:
    outcomes = [place < right for place in range(5)]
    choices = list(combinations(outcomes, k))
    assert pass_at(right, 5, k) == pytest.approx(sum(any(choice) for choice in choices) / len(choices))


def right(key: str | None) -> Verdict:
    return Verdict(1.0, result_key=key)


def wrong(key: str | None) -> Verdict:
    return Verdict(0.0, "no", result_key=key)


def test_the_largest_group_of_one_result_wins() -> None:
    assert voted([wrong("b"), right("a"), wrong("b"), right("a"), right("a")]).correct
    assert voted([right("a"), wrong("b")]).correct, "of groups of one size the earliest"
    assert not voted([wrong("b"), right("a")]).correct
    assert voted([wrong(None), wrong(None), right("a")]).correct, "what fails has no vote"
    assert not voted([wrong(None), wrong(None)]).correct


def test_scores_of_samples_by_level_and_tag() -> None:
    rows = [{"level": 1, "tags": ["x"]}, {"level": 1, "tags": ["x", "y"]}, {"level": 2}]
    samples = [
        [right("a"), wrong("b"), wrong("c"), right("a")],
        [wrong("b")] * 4,
        [right("a")] * 4,
    ]
    found = sampled_scores(rows, samples, Samples(per_row=4, temperature=0.7))
    assert (found.per_row, found.temperature) == (4, 0.7)
    means = {part.k: part.accuracy for part in found.pass_at}
    assert means == {1: pytest.approx(0.5), 2: pytest.approx((5 / 6 + 0 + 1) / 3), 4: pytest.approx(2 / 3)}
    assert all(part.low < part.accuracy < part.high and part.total == 3 for part in found.pass_at)
    assert found.vote is not None and found.vote.correct == 2
    assert [line.name for line in found.by_level] == ["1", "2"]
    assert [line.name for line in found.by_tag] == ["x", "y"]
    assert [part.accuracy for part in found.by_level[1].pass_at] == [1, 1, 1]
    assert found.by_tag[1].vote is not None and found.by_tag[1].vote.accuracy == 0


def test_each_text_of_a_row_is_judged_once() -> None:
    rows = [{"completion": "a"}, {"completion": "b"}]
    distinct = Distinct.of(rows, [["a", "b", "a"], ["b", "b", "b"]])
    assert distinct.texts == ["a", "b", "b"]
    verdicts = judge_all("exact", distinct.rows, distinct.texts, with_result_keys=True)
    found = distinct.sampled(verdicts)
    assert [[verdict.correct for verdict in its] for its in found] == [[True, False, True], [True] * 3]
    a, b = found[0][0].result_key, found[0][1].result_key
    assert a != b and None not in (a, b)
    assert [[verdict.result_key for verdict in its] for its in found] == [[a, b, a], [b, b, b]]
    assert all(verdict.result_key is None for verdict in judge_all("exact", rows, ["a", "b"]))


def keys(scorer: str, row: dict[str, Any], *texts: str) -> list[str | None]:
    verdicts = verdicts_of(scorer, [row] * len(texts), list(texts), with_result_keys=True)
    return [verdict.result_key for verdict in verdicts]


def test_queries_are_the_same_where_they_return_the_same() -> None:
    one, other, fewer, failed, prose = keys(
        "sql",
        SQL,
        "SELECT price FROM t",
        "SELECT t.price AS p FROM t WHERE 1;",
        "SELECT price FROM t WHERE id < 3",
        "SELECT nothing FROM t",
        "I do not know.",
    )
    assert one == other != fewer and None not in (one, fewer)
    assert failed is None and prose is None


def test_the_order_of_rows_counts_where_the_query_has_one() -> None:
    up, up_again, down, one, ordered_one = keys(
        "sql",
        SQL,
        "SELECT price FROM t ORDER BY price",
        "SELECT price FROM t ORDER BY price ASC",
        "SELECT price FROM t ORDER BY price DESC",
        "SELECT max(price) FROM t",
        "SELECT price FROM t ORDER BY price DESC LIMIT 1",
    )
    assert up == up_again != down
    assert one == ordered_one


def test_json_is_the_same_where_its_value_is() -> None:
    row = {"completion": '{"a": 1}'}
    same, again, text, listed, broken = keys(
        "json", row, '{"a": 1, "b": [true]}', '{"b": [true], "a": 1.0}', '{"a": "1", "b": [true]}', "[1]", "{"
    )
    assert same == again and len({same, text, listed}) == 3
    assert broken is None
    null, null_again, word = keys("json", row, "null", " null\n", '"null"')
    assert null == null_again not in (None, word)
    huge, verdict = keys("json", row, "1e999"), judge_all("json", [row], ["1e999"], with_result_keys=True)[0]
    assert huge == [None] and "OverflowError" not in verdict.reason


def test_schemas_are_the_same_where_they_accept_the_same() -> None:
    row = {"completion": '{"type": "integer"}', "instances": [1, "a", 2.5]}
    one, other, wider = keys(
        "json", row, '{"type": "integer"}', '{"type": "number", "multipleOf": 1}', '{"type": "number"}'
    )
    assert one == other != wider


def test_typescript_is_the_same_where_its_tree_is() -> None:
    row = {"completion": "type A = string[];"}
    one, other, third, broken = keys(
        "typescript", row, "type A = string[];", "type A = Array<string>", "type A = number[]", "type A = ;"
    )
    assert one == other != third and broken is None


def test_labels_and_texts_are_their_own_results() -> None:
    from expert_worker.evaluate.scorers import ChosenScorer

    labels = ChosenScorer("classification", {"labels": ["yes", "no"]})
    verdicts = judge_all(
        labels, [{"completion": "yes"}] * 3, ["Yes.", "It is yes", "yes or no"], with_result_keys=True
    )
    first, second, hedging = (verdict.result_key for verdict in verdicts)
    assert first == second is not None and hedging is None
