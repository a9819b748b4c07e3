"""No setting of the plan without a test that it is applied: here, or in the test that is named for it."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_ledger import HARMLESS, NUMERICAL

from expert_worker.document import Document
from expert_worker.plan import Machine, Recipe

TESTS = Path(__file__).parents[2]
LEDGER = "worker/train/test_ledger.py"
DATA = "worker/pretokenize/test_data.py"
CUDA = "worker/train/test_cuda_settings.py"
DECODE = "worker/evaluate/test_decode.py"
SCORED = "worker/evaluate/test_evaluate_stage.py"
BEST = "worker/train/test_stage.py::test_evaluation_best_and_early_stopping"
ROPE = "worker/base/test_load.py::test_rope_scaling_reaches_the_model"
LOADER = f"{LEDGER}::test_rows_that_are_not_mapped_come_through_loader_workers"
TOGETHER = "worker/train/test_distributed.py::test_two_processes_come_to_what_one_does"
KEY = "worker/pretokenize/test_key.py::test_what_decides_the_rows_changes_the_key"

ELSEWHERE = {
    "recipe.base.name": "worker/base/test_load.py::test_a_hub_id_that_is_nowhere_is_missing",
    "recipe.base.sha256": "worker/base/test_load.py::test_the_digest_is_checked",
    "recipe.base.rope_scaling": ROPE,
    "recipe.template": KEY,
    "recipe.data.train": "worker/pretokenize/test_key.py::test_any_byte_of_the_data_changes_the_key",
    "recipe.data.validation": f"{LEDGER}::test_evaluation_strategies",
    "recipe.data.test": f"{SCORED}::test_nothing_to_score_is_refused_before_a_model_is_loaded",
    "recipe.data.validation_split": KEY,
    "recipe.data.field_mapping": KEY,
    "recipe.data.train_on": KEY,
    "recipe.data.on_bad_row": f"{DATA}::test_every_fault_is_named_with_its_line",
    "recipe.data.overlong": KEY,
    "recipe.data.text_dialogue": f"{DATA}::test_a_text_that_is_a_rendered_dialogue_is_rendered_anew",
    "recipe.data.deduplicate": KEY,
    "recipe.data.min_length": KEY,
    "recipe.data.max_length": f"{DATA}::test_duplicates_and_lengths",
    "recipe.adapter.feedforward_modules": "worker/train/test_stage.py::test_every_adapter_loads_back",
    "recipe.adapter.soft_prompts": "worker/train/test_stage.py::test_every_adapter_loads_back",
    "recipe.batch.max_seq_length": KEY,
    "recipe.batch.packing": KEY,
    "recipe.schedule.duration": f"{LEDGER}::test_durations",
    "recipe.precision.tf32": f"{CUDA}::test_tf32_is_read_back_from_torch",
    "recipe.evaluation.strategy": f"{LEDGER}::test_evaluation_strategies",
    "recipe.evaluation.steps": f"{LEDGER}::test_evaluation_strategies",
    "recipe.evaluation.rows": "worker/train/test_scoring.py::test_only_as_many_rows_are_looked_at",
    "recipe.evaluation.best": BEST,
    "recipe.evaluation.scorer": "worker/evaluate/test_sandbox.py::test_an_unknown_scorer_is_named",
    "recipe.evaluation.test_set_size": f"{SCORED}::test_the_adapter_is_told_from_its_base",
    "recipe.evaluation.test_cases": f"{SCORED}::test_test_cases_stand_in_for_a_test_set",
    "recipe.saving": f"{LEDGER}::test_saving_strategies",
    "recipe.decoding.temperature": f"{DECODE}::test_sampling_depends_on_its_seed_alone",
    "recipe.decoding.top_p": f"{DECODE}::test_sampling_depends_on_its_seed_alone",
    "recipe.decoding.top_k": f"{DECODE}::test_sampling_depends_on_its_seed_alone",
    "recipe.decoding.min_p": f"{DECODE}::test_sampling_depends_on_its_seed_alone",
    "recipe.decoding.stop_sequences": f"{DECODE}::test_an_answer_ends_before_a_stop_sequence",
    "recipe.decoding.max_new_tokens": f"{DECODE}::test_an_answer_ends_at_eos",
    "machine.distributed": TOGETHER,
    "machine.fast_parts": "worker/train/test_stopwatch.py::test_a_switched_off_part_is_told",
    "machine.flash_attention": f"{CUDA}::test_a_gpu_without_flash_attention",
    "machine.threads.compute": f"{LEDGER}::test_threads_are_read_back_from_torch",
    "machine.threads.pretokenize": "worker/pretokenize/test_key.py::test_threads_give_the_same_bytes",
    "machine.loader": LOADER,
    "machine.logging.steps": "worker/tracking/test_tracking.py::test_logging_steps_thin_the_curve",
    "machine.logging.trackers": "worker/tracking/test_tracking.py::test_tensorboard_reads_what_was_said",
    "machine.save_total_limit": f"{LEDGER}::test_saving_strategies",
    "machine.mirror": f"{LEDGER}::test_checkpoints_are_mirrored",
}
# Names, places and estimates: what a run is called, where it lies, and what was foreseen of it.
NO_SETTINGS = (
    "recipe.expert",
    "recipe.precision.compute",  # Decided into machine.dtype.
    "recipe.data.streaming",  # Decided into machine.loader.use_cache.
    "recipe.evaluation.suite",
    "recipe.evaluation.metrics",
    "machine.device",
    "machine.accumulation",  # Follows from the rows of a step, the micro-batch and the processes.
    "machine.paths",
    "machine.estimate",
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


@pytest.mark.parametrize("named", sorted(set(ELSEWHERE.values())))
def test_every_test_that_is_named_is_there(named: str) -> None:
    file, _, test = named.partition("::")
    assert f"def {test}" in (TESTS / file).read_text()
