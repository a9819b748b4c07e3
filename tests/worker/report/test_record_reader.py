"""Recorded files through the generated models: what fits is read, what does not is counted."""

from __future__ import annotations

from expert_worker.record_reader import read_record
from expert_worker.recorded import CacheRecord, EvaluationResult, RunRecord


def test_a_record_without_any_key_has_defaults_at_every_depth() -> None:
    record, left_out = read_record(RunRecord, {"recipe": {}})
    assert left_out == 0 and record.recipe is not None
    assert record.recipe.adapter.target_modules == () and record.recipe.schedule.duration.value is None
    assert record.result is None and record.packages == {}


def test_each_value_that_does_not_fit_is_counted_once_and_costs_no_other() -> None:
    line = {"name": "a", "adapter": {"accuracy": 1.5, "total": 4}}
    found, left_out = read_record(
        EvaluationResult, {"rows": "many", "by_tag": [line, 7, line], "scorer": "sql"}
    )
    assert left_out == 4, "rows, one line, and the accuracy of the two others"
    assert [one.name for one in found.by_tag] == ["a", "a"] and found.scorer == "sql"
    shares = [one.adapter for one in found.by_tag]
    assert all(share is not None and share.accuracy is None and share.total == 4 for share in shares)


def test_variables_of_the_template_may_be_negative() -> None:
    kwargs = {"x": -7, "thinking": True, "effort": "low"}
    record, left_out = read_record(RunRecord, {"recipe": {"template": {"kwargs": kwargs}}})
    assert left_out == 0 and record.recipe is not None
    assert record.recipe.template.kwargs == kwargs


def test_words_and_units_of_another_version_are_read() -> None:
    recipe = {
        "adapter": {"kind": "vera"},
        "schedule": {"duration": {"unit": "hours", "value": 2.5}},
        "new": 1,
    }
    record, left_out = read_record(RunRecord, {"recipe": recipe})
    assert left_out == 0 and record.recipe is not None
    assert record.recipe.adapter.kind == "vera"
    duration = record.recipe.schedule.duration
    assert (duration.unit, duration.value) == ("hours", 2.5)
    assert record.recipe.as_found == recipe


def test_one_bad_entry_of_a_map_is_left_out_alone() -> None:
    found, left_out = read_record(CacheRecord, {"splits": {"train": {"rows": 3}, "validation": []}})
    assert left_out == 1 and {name: split.rows for name, split in found.splits.items()} == {"train": 3}
