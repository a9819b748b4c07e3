"""Our pure schedules against transformers' and torch's stateful ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from transformers import get_scheduler

from expert_worker.plan import Schedule, WarmupRatio, WarmupSteps
from expert_worker.train.schedule import rate, warmup_steps

TOTAL, PEAK = 40, 3e-4


def made(kind, warmup, **options):
    return Schedule(
        kind=kind,
        options=options,
        warmup=WarmupSteps(unit="steps", value=warmup),
        duration={"unit": "steps", "value": TOTAL},
    )


def schedule_of(kind, warmup=5, **options):
    return rate(made(kind, warmup, **options), PEAK, TOTAL)


def ours(kind, warmup=5, **options):
    at = schedule_of(kind, warmup, **options)
    return [at(step) for step in range(TOTAL)]


def theirs(kind, warmup=5, **specific):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = get_scheduler(kind, optimizer, warmup, TOTAL, scheduler_specific_kwargs=specific or None)
    rates = []
    for _ in range(TOTAL):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize("warmup", [0, 5])
@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        ("linear", "linear", {}),
        ("cosine", "cosine", {}),
        ("cosine", "cosine", {"num_cycles": 1.5}),
        ("cosine", "cosine_with_min_lr", {"min_lr_ratio": 0.1}),
        ("cosine_with_restarts", "cosine_with_restarts", {"num_cycles": 3}),
        ("polynomial", "polynomial", {"power": 2.0, "lr_end": 1e-6}),
        ("constant_with_warmup", "constant_with_warmup", {}),
    ],
)
def test_shapes_are_the_known_ones(kind, name, options, warmup):
    numbers = {key: float(value) for key, value in options.items()}
    wanted = {"min_lr_rate": options["min_lr_ratio"]} if "min_lr_ratio" in options else options
    assert ours(kind, warmup, **numbers) == pytest.approx(theirs(name, warmup, **wanted), rel=1e-9, abs=1e-12)


def test_constant_knows_no_warmup():
    assert ours("constant") == [PEAK] * TOTAL


def one_cycle_of_torch(share, total, **options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK, total_steps=total, pct_start=share, **options
    )
    rates = []
    for step in range(total):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step < total - 1:
            scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("warmup", "share", "total"),
    [
        (WarmupSteps(unit="steps", value=0), 0.3, 40),
        (WarmupSteps(unit="steps", value=0), 0.3, 25),
        (WarmupSteps(unit="steps", value=0), 0.3, 2),
        (WarmupSteps(unit="steps", value=10), 0.25, 40),
        (WarmupSteps(unit="steps", value=4), 1.0, 4),
        (WarmupRatio(unit="ratio", value=0.15), 0.15, 33),
        (WarmupRatio(unit="ratio", value=0.01), 0.01, 33),
        (WarmupRatio(unit="ratio", value=0.95), 0.95, 10),
    ],
)
def test_one_cycle_is_that_of_torch(warmup, share, total):
    schedule = made("one_cycle", 0).model_copy(update={"warmup": warmup})
    at = rate(schedule, PEAK, total)
    assert [at(step) for step in range(total)] == pytest.approx(one_cycle_of_torch(share, total), rel=1e-9)


def test_one_cycle_ends_at_the_least_rate_and_knows_its_warmup():
    rates = ours("one_cycle", warmup=8, min_lr_ratio=0.1)
    wanted = one_cycle_of_torch(0.2, TOTAL, final_div_factor=10 / 25)
    assert rates == pytest.approx(wanted, rel=1e-9) and rates[-1] == pytest.approx(PEAK / 10)
    assert warmup_steps(made("one_cycle", 0), TOTAL) == 12
    assert warmup_steps(made("one_cycle", 10), TOTAL) == 10
    assert ours("one_cycle", warmup=1)[0] == PEAK, "a warm-up of one step is at its end"
    assert rate(made("one_cycle", 0), PEAK, 1)(0) == PEAK, "the only step is not warm-up"
    assert warmup_steps(made("constant", 5), TOTAL) == 0


def test_warmup_by_share():
    schedule = Schedule(
        kind="linear",
        options={},
        warmup=WarmupRatio(unit="ratio", value=0.1),
        duration={"unit": "steps", "value": TOTAL},
    )
    assert rate(schedule, PEAK, TOTAL)(4) == PEAK > rate(schedule, PEAK, TOTAL)(3)
    assert rate(schedule, PEAK, 1)(0) == PEAK, "the only step is not warm-up"


@pytest.mark.parametrize(("ratio", "total", "steps"), [(0.07, 100, 7), (0.14, 50, 7), (0.07, 101, 8)])
def test_a_share_of_the_steps_is_rounded_as_its_decimal_product(ratio, total, steps):
    warmup = WarmupRatio(unit="ratio", value=ratio)
    schedule = Schedule(kind="linear", options={}, warmup=warmup, duration={"unit": "steps", "value": total})
    assert warmup_steps(schedule, total) == steps


def accepted():
    """Each schedule with each number that the manifest's rules accept for it."""
    kinds_of = Path(__file__).parents[3] / "contract" / "src" / "plan" / "recipe.rs"
    for kinds, options in re.findall(r"((?:Self::\w+[ |]*)+)=> &\[(.*?)\]", kinds_of.read_text()):
        for kind in re.findall(r"::(\w+)", kinds):
            for option in re.findall(r'"(\w+)"', options):
                yield re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower(), option


def test_every_number_that_a_schedule_takes_changes_its_rates():
    values = {"min_lr_ratio": 0.5, "num_cycles": 3.0, "power": 2.0, "lr_end": PEAK / 10}
    found = list(accepted())
    assert ("linear", "min_lr_ratio") in found and ("polynomial", "lr_end") in found and len(found) == 8
    for kind, option in found:
        assert ours(kind, **{option: values[option]}) != ours(kind), (kind, option)


@pytest.mark.parametrize("kind", ["linear", "cosine", "cosine_with_restarts", "one_cycle"])
def test_after_the_peak_no_rate_is_below_the_least(kind):
    rates = ours(kind, min_lr_ratio=0.5)
    assert max(rates) == rates[4 if kind == "one_cycle" else 5] == PEAK
    assert PEAK / 2 <= min(rates[5:]) == rates[-1] < 0.51 * PEAK + PEAK / TOTAL


def test_restarts_end_at_the_least_rate():
    assert schedule_of("cosine_with_restarts", num_cycles=2.0)(TOTAL) == 0
    assert schedule_of("cosine_with_restarts", num_cycles=2.0, min_lr_ratio=0.25)(TOTAL) == PEAK / 4


def test_the_rate_of_a_small_peak_never_rises():
    at = rate(made("polynomial", 0), 5e-8, TOTAL)
    rates = [at(step) for step in range(TOTAL)]
    assert rates[0] == 5e-8 and rates == sorted(rates, reverse=True)
