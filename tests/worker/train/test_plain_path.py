"""The plain path computes packed documents of like length together: its padding stays within what the plan
counts, and nothing else changes."""

from __future__ import annotations

import pytest
import torch
from peft import LoKrConfig, get_peft_model
from peft.tuners.lokr import LoKrLayer
from scene import put_data, rows, train
from tiny import apart, base, flat, gradients, ia3, lora, stirred
from tiny_families import config
from torch import nn
from transformers import AutoModelForCausalLM

from expert_worker.adapter import KINDS
from expert_worker.plan import Adapter, RopeScaling
from expert_worker.train.engine import PlainEngine
from expert_worker.train.fast.batch import PackedBatch
from expert_worker.train.fast.dropout import Place, install
from expert_worker.train.objective import SupervisedFineTuning

LENGTHS = (3, 40, 5, 2, 8, 3, 5, 41, 2, 6)


def lokr(dropout: float = 0.4) -> nn.Module:
    adapter = Adapter(
        kind="lokr",
        rank=4,
        alpha=8,
        dropout=dropout,
        target_modules=("q_proj", "down_proj"),
        feedforward_modules=(),
        soft_prompts=(),
    )
    return stirred(get_peft_model(base(), KINDS["lokr"].config(adapter, 1)))


MODELS = {"lora": lambda: lora(dropout=0.3), "ia3": ia3, "lokr": lokr}


def engine_of(model: nn.Module, *, passes: bool) -> tuple[PlainEngine, list[tuple[int, int]]]:
    """And the shapes of what the base is given."""
    place, seen = Place(), []
    install(model, place)

    def note(_module: object, inputs: tuple[torch.Tensor]) -> None:
        seen.append(tuple(inputs[0].shape))

    model.get_input_embeddings().register_forward_pre_hook(note)
    cpu = torch.device("cpu")
    return PlainEngine(model, SupervisedFineTuning(), place, 1, cpu, passes=passes), seen


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_passes_give_the_loss_and_the_gradients_of_one(kind: str) -> None:
    batch = flat(LENGTHS)
    found = []
    for passes in (False, True):
        model = MODELS[kind]()
        engine, seen = engine_of(model, passes=passes)
        loss = engine.backward(batch, 0.5)
        found.append((loss, gradients(model), engine.loss(batch), list(seen)))
    (loss, wanted, measured, whole), (loss_too, gotten, measured_too, parts) = found
    assert whole == [(10, 41)] * 2, "one row for each document, as long as the longest"
    assert len(parts) > 2 and max(count * width for count, width in parts) <= sum(LENGTHS)
    assert parts[: len(parts) // 2] == parts[len(parts) // 2 :] and sum(count for count, _ in parts) == 20
    assert apart(loss_too, loss) < 1e-6 and apart(measured_too, measured) < 1e-6
    assert gotten.keys() == wanted.keys()
    assert max(apart(gotten[name], wanted[name]) for name in wanted) < 1e-5


def test_a_shared_beginning_is_repeated_within_what_the_batch_holds() -> None:
    batch = flat((20, 3, 4, 3, 9))
    batch = PackedBatch(
        batch.ids,
        batch.labels.index_fill(0, torch.arange(17), -100),
        torch.cat([torch.arange(20), *(torch.arange(16, 16 + n) for n in (3, 4, 3)), torch.arange(9)]),
        batch.lengths,
        batch.keys,
        shared=(0, 16, 16, 16, 0),
    )
    (one, whole), (other, parts) = (engine_of(lora(), passes=passes) for passes in (False, True))
    assert apart(other.loss(batch), one.loss(batch)) < 1e-6
    assert whole == [(5, 20)] and parts == [(2, 19), (1, 19), (1, 20), (1, 20)]


def opt() -> nn.Module:
    """A base with dropout, with an adapter that has some too."""
    torch.manual_seed(1)
    opt = AutoModelForCausalLM.from_config(config("opt")).requires_grad_(False)
    assert opt.config.dropout == 0.1
    names = ["q_proj", "fc2"]
    adapter = LoKrConfig(r=4, alpha=8, rank_dropout=0.4, target_modules=names, task_type="CAUSAL_LM")
    return stirred(get_peft_model(opt, adapter)).train()


def dropped_by_the_base(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """What a base's own dropout gives for ones, call by call."""
    dropout, seen = nn.functional.dropout, []

    def drop(values: torch.Tensor, p: float = 0.5, training: bool = True, **more: object) -> torch.Tensor:
        if training and p:
            with torch.random.fork_rng():
                seen.append(dropout(torch.ones(1, 3, 32), p))
        return dropout(values, p, training, **more)

    monkeypatch.setattr(nn.functional, "dropout", drop)
    return seen


def test_the_dropout_of_a_base_differs_between_the_passes_of_a_step(monkeypatch) -> None:
    model = opt()
    engine, _ = engine_of(model, passes=False)
    seen = dropped_by_the_base(model, monkeypatch)
    batch = flat((9, 9, 9, 9))
    alone, other = batch.pieces(2)
    found = []
    for part in (alone, other, alone):
        seen.clear()
        engine.backward(part, 0.5)
        found.append(torch.cat(seen))
    first, second, again = found
    assert first.eq(0).any() and torch.equal(first, again)
    assert not torch.equal(first, second)


def test_a_beginning_that_passes_share_does_not_share_their_masks(monkeypatch) -> None:
    model = opt()
    engine, shapes = engine_of(model, passes=True)
    seen = dropped_by_the_base(model, monkeypatch)
    batch = flat((20, 3, 3))
    positions = torch.cat([torch.arange(20), torch.arange(16, 19), torch.arange(16, 19)])
    batch = PackedBatch(batch.ids, batch.labels, positions, batch.lengths, batch.keys, shared=(0, 16, 16))
    engine.backward(batch, 0.5)
    assert len(shapes) == 3
    masks = torch.stack(seen).chunk(3)
    assert not torch.equal(masks[0], masks[1]) and not torch.equal(masks[1], masks[2])


def test_lokr_drops_the_same_rows_in_all_passes_on_a_base_with_dropout(monkeypatch) -> None:
    model, drawn = opt(), []
    for layer in model.modules():
        if isinstance(layer, LoKrLayer):
            delta = layer.get_delta_weight

            def noted(*names: str, _delta=delta, **more: bool) -> torch.Tensor:
                weight = _delta(*names, **more)
                drawn.append(tuple(weight.eq(0).all(1).tolist()))
                return weight

            monkeypatch.setattr(layer, "get_delta_weight", noted)
    engine, _ = engine_of(model, passes=False)
    first, second = flat((9, 9, 9, 9)).pieces(2)
    engine.backward(first, 0.5)
    once = [*drawn]
    drawn.clear()
    engine.backward(second, 0.5)
    assert drawn == once and len(set(once)) == len(once) == 4


def test_the_rows_that_lokr_keeps_make_up_for_those_that_it_drops(monkeypatch) -> None:
    model, drawn = lokr(0.75), []
    engine, _ = engine_of(model, passes=False)
    for layer in model.modules():
        if isinstance(layer, LoKrLayer):
            delta = layer.get_delta_weight

            def noted(name: str, _delta=delta, **more: bool) -> torch.Tensor:
                drawn.append(_delta(name, **more))
                return drawn[-1]

            monkeypatch.setattr(layer, "get_delta_weight", noted)
    engine.loss(flat())
    whole = [*drawn]
    drawn.clear()
    engine.backward(flat(), 1.0)
    for dropped, answers in zip(drawn, whole, strict=True):
        kept = dropped.ne(0).any(1)
        assert 0 < int(kept.sum()) < len(kept)
        assert torch.allclose(dropped[kept] * 0.25, answers[kept], rtol=1e-5)
    drawn.clear()
    engine.loss(flat())
    assert all(map(torch.equal, drawn, whole))


def test_a_layer_of_which_lokr_drops_all_rows_has_finite_gradients() -> None:
    model = lokr(0.99)
    engine, _ = engine_of(model, passes=False)
    loss, found = engine.backward(flat(), 1.0), gradients(model)
    assert loss.isfinite() and all(gradient.isfinite().all() for gradient in found.values())
    assert sum(bool(gradient.eq(0).all()) for gradient in found.values()) > len(found) // 2


def test_a_run_takes_them_where_rows_hold_several_documents(tmp_path, monkeypatch) -> None:
    put_data(monkeypatch, rows(8))
    taken = []
    parts = PlainEngine._parts
    monkeypatch.setattr(
        PlainEngine, "_parts", lambda self, batch: taken.append(parts(self, batch)) or taken[-1]
    )
    recipe = {"machine.fast_path": False, "recipe.schedule.duration": {"unit": "steps", "value": 2}}
    losses = []
    for packing in (True, False):
        taken.clear()
        losses.append(
            train(tmp_path, {**recipe, "recipe.batch.packing": packing}, output=str(packing)).losses
        )
        assert (max(map(len, taken)) > 1) == packing
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "length", "packing", "warned"),
    [
        ("dynamic", 256, True, True),
        ("dynamic", 128, True, False),
        ("dynamic", 256, False, False),
        ("linear", 256, True, False),
    ],
)
def test_positions_that_follow_from_the_longest_row_are_warned_of(
    kind: str, length: int, packing: bool, warned: bool, tmp_path, monkeypatch
) -> None:
    put_data(monkeypatch, rows(4))
    scaling = dict.fromkeys(RopeScaling.model_fields) | {"kind": kind, "factor": 4.0}
    changes = {
        "recipe.base.rope_scaling": scaling,
        "recipe.batch.max_seq_length": length,
        "recipe.batch.packing": packing,
        "recipe.schedule.duration": {"unit": "steps", "value": 1},
        "machine.micro_batch": 1,
    }
    codes = {body.code for body in train(tmp_path, changes).of("warning")}
    assert ("rope-follows-longest-row" in codes) == warned
