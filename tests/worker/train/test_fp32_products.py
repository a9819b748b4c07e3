"""A 16-bit run on a processor without units for the format: computed in fp32, results those of the format."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scene import put_data, train
from tiny import CONFIGS, apart, base, flat, gradients, lora, plain_loss

from expert_worker.base import fp32_products, product_speed
from expert_worker.errors import Interrupted
from expert_worker.events import Events
from expert_worker.train import checkpoints, stage
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place, install

CPU = torch.device("cpu")
# Between two ways of rounding to bf16, which has 8 bits.
ROUNDING = 3e-2


def held(kind: str = "qwen3", dtype: torch.dtype = torch.bfloat16, **options):
    model = base(kind, dtype)
    fp32_products.hold_in_fp32(model, dtype)
    return lora(kind, model=model, **options)


def fast(model, batch):
    place = Place()
    install(model, place)
    decoder = FastDecoder(model, place)
    loss = decoder.loss(batch)
    loss.backward()
    return decoder, loss, gradients(model)


@pytest.mark.parametrize("kind", sorted(CONFIGS))
def test_the_weights_keep_their_values_and_everything_is_computed_in_fp32(kind):
    before, model = base(kind, torch.bfloat16), base(kind, torch.bfloat16)
    fp32_products.hold_in_fp32(model, torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    for (name, now), then in zip(model.named_parameters(), before.parameters(), strict=True):
        assert torch.equal(now.float(), then.float()), name
    ids = torch.tensor([[3, 5, 7, 9]])
    seen = []
    model.model.layers[1].register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].dtype))
    logits = model(input_ids=ids).logits
    assert seen == [torch.float32] and logits.dtype == torch.float32
    assert apart(logits, before(input_ids=ids).logits) < ROUNDING
    assert apart(logits, before.float()(input_ids=ids).logits) < 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_fast_path_gives_the_gradients_of_fp32_within_rounding(dtype, dora, dropout):
    decoder, loss, found = fast(held(dtype=dtype, dora=dora, dropout=dropout), flat())
    exact = base(dtype=dtype).float()
    _, expected, wanted = fast(lora(model=exact, dora=dora, dropout=dropout), flat())
    assert decoder.kernels.choices["attention"].chosen == "native"
    assert apart(loss, expected) < ROUNDING
    assert found.keys() == wanted.keys() and all(gradient.norm() > 0 for gradient in wanted.values())
    assert apart(joined(found), joined(wanted)) < ROUNDING


def test_the_plain_path_agrees():
    model = held()
    expected = plain_loss(model, flat())
    expected.backward()
    wanted = gradients(model)
    _, loss, found = fast(model, flat())
    assert apart(loss, expected) < ROUNDING
    assert apart(joined(found), joined(wanted)) < ROUNDING


def joined(found):
    return torch.cat([found[name].flatten() for name in sorted(found)])


@pytest.mark.parametrize(
    ("planned", "slowdown", "taken", "warned"),
    [
        (True, 8.0, True, False),
        (False, 0.3, False, False),
        # What the processor is said to have decides unless a measurement says otherwise.
        (False, 1.2, False, False),
        (True, 0.9, True, False),
        (False, 1.8, True, True),  # AVX512-BF16 that is slower than fp32.
        (False, 7.9, True, True),  # Units that are there but switched off.
        (True, 0.2, False, True),
    ],
)
def test_a_measurement_wins_only_where_it_is_clear(monkeypatch, tmp_path, planned, slowdown, taken, warned):
    monkeypatch.setattr(product_speed, "slowdown", lambda dtype: slowdown)
    events, said = Events.in_memory()
    assert fp32_products.chosen(planned, torch.bfloat16, CPU, tmp_path, events) is taken
    bodies = [event.body for event in said.events]
    assert [body.value for body in bodies if body.type == "applied"] == [taken]
    assert any(body.type == "warning" for body in bodies) is warned


def test_fp32_and_other_devices_are_never_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(product_speed, "slowdown", lambda dtype: pytest.fail("measured"))
    events, said = Events.in_memory()
    assert not fp32_products.chosen(True, torch.float32, CPU, tmp_path, events)
    assert not fp32_products.chosen(True, torch.bfloat16, torch.device("cuda"), tmp_path, events)
    assert said.events == []


def test_the_product_is_really_measured():
    assert 0.01 < product_speed.slowdown(torch.bfloat16) < 1000


def test_two_runs_on_one_machine_never_differ_by_noise(monkeypatch, tmp_path):
    events, _ = Events.in_memory()
    for times, taken in ((1.8, True), (1.1, True), (0.3, True)):
        monkeypatch.setattr(product_speed, "slowdown", lambda dtype, times=times: times)
        assert fp32_products.chosen(False, torch.bfloat16, CPU, tmp_path, events) is taken
    # Other instructions, another processor or a new torch: measured again.
    monkeypatch.setattr(product_speed, "_instructions", lambda: "others")
    assert not fp32_products.chosen(False, torch.bfloat16, CPU, tmp_path, events)
    monkeypatch.setattr(product_speed, "slowdown", lambda dtype: 5.0)
    assert not fp32_products.chosen(False, torch.bfloat16, CPU, tmp_path, events)
    assert [path.name for path in (tmp_path / "products").iterdir()] == ["bf16.json"]


def test_of_two_that_measure_at_once_the_first_decides(monkeypatch, tmp_path):
    def slow(_dtype):
        monkeypatch.setattr(product_speed, "slowdown", lambda dtype: 0.4)
        assert not product_speed.of(torch.bfloat16, False, tmp_path).in_fp32
        return 8.0

    monkeypatch.setattr(product_speed, "slowdown", slow)
    assert not product_speed.of(torch.bfloat16, False, tmp_path).in_fp32


def test_where_nothing_can_be_kept_it_is_measured_each_time(monkeypatch, tmp_path):
    (tmp_path / "products").write_text("")
    for times in (1.8, 0.8):
        monkeypatch.setattr(product_speed, "slowdown", lambda dtype, times=times: times)
        assert product_speed.of(torch.bfloat16, False, tmp_path).times_fp32 == times


def test_a_run_learns_and_says_how_its_products_are_formed(tmp_path, monkeypatch):
    monkeypatch.setattr(product_speed, "slowdown", lambda dtype: 8.0)
    put_data(monkeypatch)
    changes = {"machine.dtype": "bf16", "machine.fp32_products": True, "recipe.precision.compute": "bf16"}
    ran = train(tmp_path, changes)
    assert ran.applied["fp32_products"] is True and ran.applied["base.dtype"] == "bfloat16"
    assert "Using BF16" not in {event.body.note for event in ran.events if event.body.type == "applied"}
    assert ran.losses[-1] < ran.losses[0]
    assert all(step.grad_norm > 0 for step in ran.of("progress"))


def test_a_resumed_run_keeps_the_choice_and_the_bytes_whatever_is_measured_then(tmp_path, monkeypatch):
    put_data(monkeypatch)
    whole = {"machine.dtype": "bf16", "recipe.precision.compute": "bf16", "machine.fp32_products": True}

    def measured(slowdown: float, processor: str) -> None:
        monkeypatch.setattr(product_speed, "slowdown", lambda dtype: slowdown)
        monkeypatch.setattr(stage, "name_of_processor", lambda plan: processor)
        monkeypatch.setattr(checkpoints, "name_of_processor", lambda plan: processor)
        monkeypatch.setattr(product_speed, "cpu_name", lambda: processor)

    measured(8.0, "an old processor (AVX2)")
    undisturbed = train(tmp_path, whole, output="undisturbed")
    with monkeypatch.context() as stopping, pytest.raises(Interrupted):
        stopping.setattr(Events, "progress", _stop_after(2))
        train(tmp_path, whole)
    # Another machine: its plan and its measurement both say otherwise.
    measured(0.1, "a new processor (AVX512)")
    other = {**whole, "machine.fp32_products": False, "request.resume": {"from": "newest"}}
    resumed = train(tmp_path, other)
    assert resumed.result["resumed_from"] == 2
    assert resumed.applied["fp32_products"] is True
    name = "adapter_model.safetensors"
    assert resumed.final(name) == undisturbed.final(name)
    moved = [body for body in resumed.of("warning") if body.code == "other-processor"]
    assert len(moved) == 1
    assert "an old processor (AVX2)" in moved[0].message and "a new processor (AVX512)" in moved[0].message
    fresh = train(tmp_path, {**whole, "machine.fp32_products": False}, output="fresh")
    assert fresh.applied["fp32_products"] is False and fresh.final(name) != undisturbed.final(name)


def _stop_after(last: int) -> Any:
    tell = Events.progress

    def progress(self: Events, *arguments: Any, **named: Any) -> None:
        tell(self, *arguments, **named)
        if (named.get("step") or arguments[0]) >= last:
            self.stop.request(terminated=True)

    return progress
