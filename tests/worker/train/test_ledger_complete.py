"""No setting of the plan without a test that it is applied: in test_ledger, or in the test named here for it,
which must exist and must set it."""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_ledger import HARMLESS, NUMERICAL

from expert_worker.document import Document
from expert_worker.plan import Machine, Recipe

TESTS = Path(__file__).parents[2]
FAMILIES = "worker/train/test_families.py"
LEDGER = "worker/train/test_ledger.py"
DATA = "worker/pretokenize/test_data.py"
CUDA = "worker/train/test_cuda_settings.py"
SCORED = "worker/evaluate/test_evaluate_stage.py"
OWN = "worker/evaluate/test_own_scorer.py"
DECODING = "worker/evaluate/test_decoding_settings.py"
TRACKING = "worker/tracking/test_tracking.py"
BEST = "worker/train/test_stage.py::test_evaluation_best_and_early_stopping"
ROPE = "worker/base/test_load.py::test_rope_scaling_reaches_the_model"
ADAPTERS = "worker/train/test_stage.py::test_every_adapter_loads_back_with_plain_peft"
INITIAL = (
    "worker/train/test_initial_adapter.py::test_the_first_step_has_the_loss_that_the_earlier_training_reached"
)
LOADER = f"{LEDGER}::test_rows_that_are_not_mapped_come_through_loader_workers"
TOGETHER = "worker/train/test_distributed.py::test_two_processes_equal_one_and_one_resumes_their_checkpoint"
ROWS = "worker/train/test_scoring.py::test_only_as_many_rows_are_looked_at_as_are_asked_for"
OBJECTIVE = "worker/train/test_objective.py::test_the_default_objective_changes_no_recipe"
KERNELS = "worker/train/test_kernels.py::test_a_plan_may_name_a_kernel"
NARROW = f"{DECODING}::test_a_narrow_choice_leaves_the_likeliest_token"
KEY = "worker/pretokenize/test_key.py::test_what_decides_the_rows_changes_the_key"

ELSEWHERE = {
    "recipe.base.name": "worker/base/test_load.py::test_a_hub_id_that_is_nowhere_is_missing",
    "recipe.base.sha256": "worker/base/test_load.py::test_the_digest_is_checked",
    "recipe.base.rope_scaling": ROPE,
    "recipe.template": KEY,
    "recipe.data.train": f"{DATA}::test_a_mixture_takes_shares",
    "recipe.data.validation": f"{DATA}::test_separate_validation_data",
    "recipe.data.test": f"{DECODING}::test_as_many_rows_of_the_test_set_as_asked_for",
    "recipe.data.validation_split": KEY,
    "recipe.data.field_mapping": KEY,
    "recipe.data.train_on": KEY,
    "recipe.data.on_bad_row": f"{DATA}::test_every_fault_is_named_with_its_line",
    "recipe.data.overlong": KEY,
    "recipe.data.text_dialogue": f"{DATA}::test_a_text_that_is_a_rendered_dialogue_is_rendered_again",
    "recipe.data.deduplicate": KEY,
    "recipe.data.drop_near_copies": KEY,
    "recipe.data.min_length": KEY,
    "recipe.data.stopping_strategy": f"{DATA}::test_rows_of_small_tasks_are_repeated",
    "recipe.data.max_length": f"{DATA}::test_duplicates_and_lengths",
    "recipe.adapter.feedforward_modules": ADAPTERS,
    "recipe.adapter.soft_prompts": ADAPTERS,
    "recipe.adapter.initial": INITIAL,
    "recipe.batch.max_seq_length": KEY,
    "recipe.batch.packing": KEY,
    "recipe.batch.share_prefixes": KEY,
    "recipe.schedule.duration": f"{LEDGER}::test_durations",
    "recipe.precision.tf32": f"{CUDA}::test_tf32_is_read_back_from_torch",
    "recipe.evaluation.strategy": f"{LEDGER}::test_evaluation_strategies",
    "recipe.evaluation.steps": f"{LEDGER}::test_evaluation_strategies",
    "recipe.evaluation.rows": ROWS,
    "recipe.evaluation.best": BEST,
    "machine.judge": "worker/evaluate/test_llm_judge.py::test_an_evaluation_by_a_judge",
    "recipe.evaluation.scorer_settings": f"{OWN}::test_the_digest_is_that_of_the_file",
    "recipe.evaluation.scorer": f"{SCORED}::test_nothing_to_score_is_refused_before_a_model_is_loaded",
    "recipe.evaluation.test_set_size": f"{DECODING}::test_as_many_rows_of_the_test_set_as_asked_for",
    "recipe.evaluation.without_base": f"{SCORED}::test_without_the_base_the_adapter_is_scored_alone",
    "recipe.evaluation.max_new_tokens": f"{SCORED}::test_scored_answers_may_have_another_limit_than_others",
    "recipe.evaluation.test_cases": f"{SCORED}::test_test_cases_stand_in_for_a_test_set",
    "recipe.objective": OBJECTIVE,
    "recipe.saving": f"{LEDGER}::test_saving_strategies",
    "recipe.decoding.grammar": f"{DECODING}::test_a_grammar_constrains_answers",
    "recipe.decoding.temperature": f"{DECODING}::test_a_temperature_samples",
    "recipe.decoding.top_p": NARROW,
    "recipe.decoding.top_k": NARROW,
    "recipe.decoding.min_p": NARROW,
    "recipe.decoding.stop_sequences": f"{DECODING}::test_an_answer_ends_before_a_stop_sequence",
    "recipe.decoding.max_new_tokens": f"{DECODING}::test_an_answer_has_at_most_as_many_tokens_as_asked_for",
    "machine.distributed": TOGETHER,
    "machine.kernels": KERNELS,
    "machine.cuda_graphs": "worker/train/test_step_graph.py::test_a_run_without_a_gpu_says_so_and_continues",
    "machine.fp32_products": f"{LEDGER}::test_fp32_products_are_formed_where_the_plan_says",
    "machine.flash_attention": f"{CUDA}::test_flash_attention_reaches_the_choice_of_a_kernel",
    "machine.threads.compute": f"{LEDGER}::test_threads_are_read_back_from_torch",
    "machine.threads.pretokenize": "worker/pretokenize/test_key.py::test_threads_give_the_same_bytes",
    "machine.loader": LOADER,
    "machine.logging.steps": f"{TRACKING}::test_logging_steps_decide_what_tensorboard_gets",
    "machine.logging.trackers": f"{TRACKING}::test_tensorboard_reads_what_was_said",
    "machine.save_total_limit": f"{LEDGER}::test_saving_strategies",
    "machine.mirror": f"{LEDGER}::test_checkpoints_are_mirrored",
    "machine.modules.parameters": f"{FAMILIES}::test_another_number_of_parameters_than_planned_is_refused",
}
# Names, paths and estimates of a run.
NO_SETTINGS = (
    "recipe.expert",
    "recipe.precision.compute",  # Decided into machine.dtype.
    "recipe.data.streaming",  # Decided into machine.loader.use_cache.
    "machine.device",
    "machine.accumulation",  # Follows from the rows of a step, the micro-batch and the processes.
    "machine.paths",
    "machine.estimate",
    "machine.modules.target",  # From the recipe and the base; the worker finds them in the loaded base.
    "machine.modules.feedforward",
)


def settings(model: type[Document], path: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        choices = (field.annotation, *typing.get_args(field.annotation))
        parts = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, Document)]
        if len(parts) == 1 and typing.get_origin(field.annotation) is not tuple:
            yield from settings(parts[0], f"{path}.{name}")
        else:
            yield f"{path}.{name}"


ALL = [*settings(Recipe, "recipe"), *settings(Machine, "machine")]


def within(setting: str, places) -> bool:
    return any(setting == place or setting.startswith(f"{place}.") for place in places)


def test_every_setting_has_a_test() -> None:
    here = {change for cases in (NUMERICAL, HARMLESS) for changes, _ in cases.values() for change in changes}
    left = [s for s in ALL if not within(s, here) and not within(s, ELSEWHERE) and not within(s, NO_SETTINGS)]
    assert not left, f"no test shows that these are applied: {left}"


def test_every_entry_is_about_a_setting_that_there_is() -> None:
    for place in (*ELSEWHERE, *NO_SETTINGS):
        assert any(within(setting, [place]) for setting in ALL), place


def definitions(file: Path) -> dict[str, ast.stmt]:
    """What a module defines, by name."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


def written(test: str, known: dict[str, ast.stmt]) -> set[str]:
    """Every text and keyword in a test and in what it uses of its module: constants, helpers, fixtures."""
    texts: set[str] = set()
    left, seen = [test], set()
    while left:
        name = left.pop()
        if name in seen or name not in known:
            continue
        seen.add(name)
        for node in ast.walk(known[name]):
            if isinstance(node, ast.Name):
                left.append(node.id)
            elif isinstance(node, ast.arg):
                left.append(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, ast.keyword) and node.arg is not None:
                texts.add(node.arg.replace("__", "."))
    return texts


def sets(setting: str, text: str) -> bool:
    """The setting itself, a part of it, or what it is a part of."""
    inside = text == setting or text.startswith(f"{setting}.")
    return inside or ("." in text and setting.startswith(f"{text}."))


@pytest.mark.parametrize(("setting", "named"), sorted(ELSEWHERE.items()))
def test_every_test_that_is_named_is_there_and_sets_its_key(setting: str, named: str) -> None:
    file, _, test = named.partition("::")
    known = definitions(TESTS / file)
    assert test in known, f"{file} has no {test}"
    assert any(sets(setting, text) for text in written(test, known)), f"{test} does not set {setting}"


def test_a_test_that_does_not_set_a_key_is_found_out() -> None:
    known = definitions(Path(__file__).parent / "test_lokr.py")
    texts = written("test_dropout_does_not_depend_on_the_micro_batch", known)
    assert any(sets("recipe.adapter.dropout", text) for text in texts)
    assert any(sets("recipe.batch", text) for text in texts)
    assert not any(sets("recipe.optimizer.name", text) for text in texts)
