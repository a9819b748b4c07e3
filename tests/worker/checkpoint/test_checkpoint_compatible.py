"""Resume under another recipe: refused, every difference shown; --extend allows only more of the same."""

import copy
from typing import Any

import pytest

from expert_worker.checkpoint import refuse_unless_same
from expert_worker.errors import BadInput
from expert_worker.plan import Code, Inputs
from expert_worker.results import CheckpointFacts

RECIPE: dict[str, Any] = {
    "seed": 1,
    "optimizer": {"learning_rate": 5e-5, "max_grad_norm": None},
    "adapter": {"target_modules": ["k_proj", "q_proj"]},
    "schedule": {"duration": {"unit": "epochs", "value": 2.0}},
}
KEY = "c" * 64
INPUTS = Inputs(
    recipe="r",
    data={"train": "1"},
    base="sha256:a",
    tokenizer="t",
    template="p",
    code=Code(version="1", worker="w", native="n"),
)


def check(
    now: dict[str, Any],
    *,
    extend: bool = False,
    key: str = KEY,
    begun: Inputs | None = INPUTS,
    inputs: Inputs | None = INPUTS,
) -> None:
    facts = CheckpointFacts(
        recipe_digest="d",
        recipe=RECIPE,
        cache_key=KEY,
        total_steps=1,
        micro_batch=1,
        totals={},
        metrics={},
        inputs=begun,
    )
    refuse_unless_same(facts, now, key, inputs, extend=extend)


def changed(path: str, value: Any) -> dict[str, Any]:
    recipe = copy.deepcopy(RECIPE)
    *parents, last = path.split(".")
    place = recipe
    for parent in parents:
        place = place[parent]
    place[last] = value
    return recipe


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
def test_what_changes_scores_alone_resumes(metric: str) -> None:
    best = {"metric": metric, "greater_is_better": False, "patience": None}
    recipe: dict[str, Any] = {
        **RECIPE,
        "data": {
            "train": [{"name": "train"}],
            "validation": [{"name": "both"}],
            "test": [{"name": "old"}, {"name": "both"}],
        },
        "evaluation": {
            "best": best,
            "scorer": None,
            "test_cases": [],
            "test_set_size": None,
            "without_base": False,
        },
        "decoding": {"temperature": 0.0, "stop_sequences": []},
    }
    facts = CheckpointFacts(
        recipe_digest="d",
        recipe=recipe,
        cache_key=KEY,
        total_steps=1,
        micro_batch=1,
        totals={},
        metrics={},
        inputs=INPUTS.model_copy(update={"data": {"train": "1", "both": "2", "old": "3"}}),
    )
    inputs = INPUTS.model_copy(update={"data": {"train": "1", "both": "2"}})

    def resume(part: str, changes: dict[str, Any]) -> None:
        now = {**recipe, part: {**recipe[part], **changes}}
        refuse_unless_same(facts, now, KEY, inputs, extend=False)

    resume("data", {"test": [{"name": "new"}]})
    resume("evaluation", {"test_set_size": 3, "without_base": True})
    for part, changes in (
        ("evaluation", {"scorer": "contains", "test_cases": [{"prompt": "q", "expected": "a"}]}),
        ("evaluation", {"max_new_tokens": 7}),
        ("decoding", {"temperature": 0.5, "stop_sequences": ["x"]}),
    ):
        if metric == "accuracy":
            with pytest.raises(BadInput, match=next(iter(changes))):
                resume(part, changes)
        else:
            resume(part, changes)
    with pytest.raises(BadInput, match=r"data\.train\[0\].name"):
        resume("data", {"train": [{"name": "new"}]})
    with pytest.raises(BadInput, match=r"data\.both"):
        refuse_unless_same(
            facts, recipe, KEY, inputs.model_copy(update={"data": {"train": "1", "both": "3"}}), extend=False
        )


def test_the_same_recipe_resumes() -> None:
    check(copy.deepcopy(RECIPE))
    check(copy.deepcopy(RECIPE), extend=True)


@pytest.mark.parametrize("extend", [False, True])
@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("seed", 2, "seed: 1 in the checkpoint, 2 now"),
        ("optimizer.learning_rate", 1e-4, "optimizer.learning_rate: 5e-05 in the checkpoint, 0.0001 now"),
        ("optimizer.max_grad_norm", 1.0, "optimizer.max_grad_norm: null in the checkpoint, 1.0 now"),
        ("adapter.target_modules", ["k_proj", "v_proj"], "adapter.target_modules[1]: q_proj in the"),
        ("adapter.target_modules", ["k_proj"], "adapter.target_modules: ['k_proj', 'q_proj'] in the"),
    ],
)
def test_a_change_is_refused_and_shown(path: str, value: Any, shown: str, extend: bool) -> None:
    with pytest.raises(BadInput) as refusal:
        check(changed(path, value), extend=extend)
    assert shown in refusal.value.message
    assert refusal.value.exit_code == 2


def test_all_changes_are_shown_at_once() -> None:
    both = changed("seed", 2) | {"optimizer": {"learning_rate": 1.0, "max_grad_norm": None}}
    with pytest.raises(BadInput) as refusal:
        check(both)
    assert refusal.value.message.count("\n") == 2


def test_longer_needs_extend() -> None:
    longer = changed("schedule.duration.value", 3.0)
    with pytest.raises(BadInput) as refusal:
        check(longer)
    assert refusal.value.hint is not None and "--extend" in refusal.value.hint
    check(longer, extend=True)


@pytest.mark.parametrize(
    ("duration", "hint"),
    [
        ({"unit": "epochs", "value": 1.0}, "more epochs or steps, never fewer"),
        ({"unit": "steps", "value": 900}, "The length of this run is set by --epochs"),
    ],
)
def test_extend_does_not_shorten_or_change_the_unit(duration: dict[str, Any], hint: str) -> None:
    with pytest.raises(BadInput) as refusal:
        check(changed("schedule.duration", duration), extend=True)
    assert hint in (refusal.value.hint or "")


@pytest.mark.parametrize("extend", [False, True])
def test_other_rows_are_refused_whether_the_recipe_is_longer_or_not(extend: bool) -> None:
    recipe = changed("schedule.duration.value", 3.0) if extend else copy.deepcopy(RECIPE)
    with pytest.raises(BadInput, match="training data changed"):
        check(recipe, key="f" * 64, extend=extend, inputs=None)
    with pytest.raises(BadInput, match="training data changed"):
        check(recipe, key="f" * 64, extend=extend)
    # Data and tokenizer are the same: only the program is left, where it is another one.
    other = INPUTS.model_copy(update={"code": Code(version="2", worker="x", native="n")})
    with pytest.raises(BadInput, match="the data is the same") as refusal:
        check(recipe, key="f" * 64, extend=extend, inputs=other)
    assert "the version that began the run, expert-cli 1," in (refusal.value.hint or "")


@pytest.mark.parametrize("extend", [False, True])
@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"data": {"train": "2"}}, "data.train: 1 in the checkpoint, 2 now"),
        ({"base": "sha256:b"}, "base: sha256:a in the checkpoint, sha256:b now"),
        ({"tokenizer": "u"}, "tokenizer: t in the checkpoint, u now"),
    ],
)
def test_another_base_or_other_data_is_refused(change: dict[str, Any], shown: str, extend: bool) -> None:
    recipe = changed("schedule.duration.value", 3.0) if extend else copy.deepcopy(RECIPE)
    with pytest.raises(BadInput) as refusal:
        check(recipe, inputs=INPUTS.model_copy(update=change), extend=extend)
    assert shown in refusal.value.message and refusal.value.exit_code == 2


def test_what_is_unknown_is_not_the_same() -> None:
    unknown = INPUTS.model_copy(update={"base": None})
    for begun, inputs in ((unknown, INPUTS), (INPUTS, unknown), (unknown, unknown), (None, INPUTS)):
        with pytest.raises(BadInput, match="base"):
            check(copy.deepcopy(RECIPE), begun=begun, inputs=inputs)


def test_other_code_is_for_the_command_line_to_warn_of() -> None:
    code = Code(version="2", worker="x", native="y")
    check(copy.deepcopy(RECIPE), inputs=INPUTS.model_copy(update={"code": code}))
