"""Each key of the plan that training honours changes what is applied, and the loss where it is a number."""

from __future__ import annotations

import pytest
from scene import put_data, rows, train

from expert_worker.base import product_speed
from expert_worker.errors import BadInput

STEPS = {"unit": "steps", "value": 3}

# (changes, applied key that must differ, whether losses must differ)
NUMERICAL = {
    "adapter kind": ({"recipe.adapter.kind": "dora"}, "adapter"),
    "rslora": ({"recipe.adapter.kind": "rslora"}, "adapter"),
    "rank": ({"recipe.adapter.rank": 2}, "adapter"),
    "alpha": ({"recipe.adapter.alpha": 4.0}, "adapter"),
    "dropout": ({"recipe.adapter.dropout": 0.3}, "dropout"),
    "target_modules": ({"recipe.adapter.target_modules": ["q_proj"]}, "adapter"),
    "learning_rate": ({"recipe.optimizer.learning_rate": 0.002}, "optimizer"),
    "weight_decay": ({"recipe.optimizer.weight_decay": 5.0}, "optimizer"),
    "beta1": ({"recipe.optimizer.beta1": 0.5}, "optimizer"),
    "beta2": ({"recipe.optimizer.beta2": 0.5}, "optimizer"),
    "epsilon": ({"recipe.optimizer.epsilon": 0.1}, "optimizer"),
    "max_grad_norm": (
        {"recipe.optimizer.name": "sgd", "recipe.optimizer.max_grad_norm": 1e-4},
        "max_grad_norm",
    ),
    "optim": ({"recipe.optimizer.name": "sgd"}, "optimizer"),
    "adafactor": ({"recipe.optimizer.name": "adafactor"}, "optimizer"),
    "muon": ({"recipe.optimizer.name": "muon"}, "optimizer"),
    "neftune": ({"recipe.optimizer.neftune": {"noise_alpha": 20.0}}, "neftune"),
    "scheduler": ({"recipe.schedule.kind": "cosine"}, "schedule"),
    "warmup steps": ({"recipe.schedule.warmup": {"unit": "steps", "value": 2}}, "schedule"),
    "warmup ratio": ({"recipe.schedule.warmup": {"unit": "ratio", "value": 0.5}}, "schedule"),
    "scheduler options": (
        {"recipe.schedule.kind": "polynomial", "recipe.schedule.options": {"power": 3.0}},
        "schedule",
    ),
    "batch": ({"recipe.batch.rows_per_step": 3}, "rows_per_step"),
    "group_by_length": (
        {"recipe.batch.packing": False, "recipe.batch.group_by_length": True},
        "group_by_length",
    ),
    "seed": ({"recipe.seed": 7}, "seed"),
    "bf16": ({"machine.dtype": "bf16"}, "base.dtype"),
    "fp16": ({"machine.dtype": "fp16"}, "base.dtype"),
    "int4": ({"recipe.base.quantization": "int4"}, "base.quantization"),
    "int8": ({"recipe.base.quantization": "int8"}, "base.quantization"),
}
# Settings that must not move the result.
HARMLESS = {
    "not fused": ({"recipe.optimizer.name": "adamw_torch"}, "optimizer"),
    "full checkpointing": ({"machine.checkpointing": "full"}, "gradient_checkpointing"),
    "selective checkpointing": ({"machine.checkpointing": "selective"}, "gradient_checkpointing"),
    "micro_batch": ({"machine.micro_batch": 1}, "micro_batch"),
    "piece_tokens": ({"machine.piece_tokens": 16}, "piece_tokens"),
    "fast path": ({"machine.fast_path": False}, "path"),
    "eager attention": ({"machine.sdpa": False}, "attention"),
    "drop_last": ({"recipe.batch.drop_last": True}, "drop_last"),
    "compile": ({"machine.compile": {"backend": "eager", "mode": "default", "asked": True}}, "torch_compile"),
    "memory_clear_every": ({"machine.memory_clear_every": 1}, "memory_clear_every"),
    "adamw_bnb_8bit": ({"recipe.optimizer.name": "adamw_bnb_8bit"}, "optimizer"),
}


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        put_data(patched, rows(16))
        return train(tmp_path_factory.mktemp("usual"), {"recipe.schedule.duration": STEPS})


def run(tmp_path, changes, monkeypatch):
    put_data(monkeypatch, rows(16))
    return train(tmp_path, {"recipe.schedule.duration": STEPS, **changes})


@pytest.mark.parametrize("name", NUMERICAL)
def test_a_numerical_key_changes_what_is_applied_and_the_loss(name, usual, tmp_path, monkeypatch):
    changes, key = NUMERICAL[name]
    changed = run(tmp_path, changes, monkeypatch)
    assert changed.applied.get(key) != usual.applied.get(key)
    assert changed.losses != pytest.approx(usual.losses, rel=1e-7)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if name == "compile" else ()) for name in HARMLESS]
)
def test_a_harmless_key_changes_what_is_applied_and_not_the_loss(name, usual, tmp_path, monkeypatch):
    changes, key = HARMLESS[name]
    changed = run(tmp_path, changes, monkeypatch)
    assert changed.applied.get(key) != usual.applied.get(key)
    assert changed.losses == pytest.approx(usual.losses, rel=1e-4)


def test_durations(tmp_path, monkeypatch):
    put_data(monkeypatch, rows(16))
    for number, (value, steps) in enumerate(((1.0, 4), (1.5, 6), (0.1, 1))):
        ran = train(
            tmp_path, {"recipe.schedule.duration": {"unit": "epochs", "value": value}}, output=f"out{number}"
        )
        assert ran.result["steps"] == ran.applied["steps"] == steps


def test_saving_strategies(tmp_path, monkeypatch):
    put_data(monkeypatch, rows(16))
    duration = {"recipe.schedule.duration": {"unit": "steps", "value": 6}}
    for number, (changes, kept) in enumerate((
        ({"recipe.saving.strategy": "steps", "recipe.saving.steps": 2}, [2, 4, 6]),
        ({"recipe.saving.strategy": "epoch", "recipe.saving.steps": None}, [4, 6]),
        ({"recipe.saving.strategy": "no", "recipe.saving.steps": None}, [6]),
        ({"recipe.saving.steps": 1, "machine.save_total_limit": 2}, [5, 6]),
    )):  # fmt: skip
        ran = train(tmp_path, {**duration, **changes}, output=f"out{number}")
        found = sorted(int(path.name.removeprefix("checkpoint-")) for path in ran.output.glob("checkpoint-*"))
        assert found == kept
        assert (ran.output / "final" / "adapter_model.safetensors").is_file()


def test_evaluation_strategies(tmp_path, monkeypatch):
    put_data(monkeypatch, rows(16), rows(3, seed=8))
    duration = {"recipe.schedule.duration": {"unit": "steps", "value": 6}}
    for number, (strategy, steps, wanted) in enumerate(
        (("steps", 3, [3, 6]), ("epoch", None, [4, 6]), ("no", None, []))
    ):
        changes = {"recipe.evaluation.strategy": strategy, "recipe.evaluation.steps": steps}
        ran = train(tmp_path, {**duration, **changes}, output=f"out{number}")
        assert [body.step for body in ran.of("evaluated")] == wanted


def test_rows_that_are_not_mapped_come_through_loader_workers(usual, tmp_path, monkeypatch):
    loader = {"use_cache": False, "workers": 2, "pin_memory": True, "prefetch_factor": 3}
    ran = run(tmp_path, {"machine.loader": loader}, monkeypatch)
    assert ran.losses == usual.losses
    assert ran.applied["dataloader_num_workers"] == 2
    assert ran.applied["dataloader_prefetch_factor"] == 3
    assert ran.applied["dataloader_pin_memory"] is False  # There is no CUDA to pin for.
    assert usual.applied["data"] == "token cache" != ran.applied["data"]


def test_a_cache_that_cannot_be_written_does_not_end_the_run(usual, tmp_path, monkeypatch):
    import sys

    from expert_worker.errors import Storage

    put_data(monkeypatch, rows(16))
    given = sys.modules["expert_worker.pretokenize"].ensure_cache

    def refuse(plan, events, root):
        if root == tmp_path / "cache":
            raise Storage("The disk is full")
        return given(plan, events, root=root)

    monkeypatch.setattr(sys.modules["expert_worker.pretokenize"], "ensure_cache", refuse)
    ran = train(tmp_path, {"recipe.schedule.duration": STEPS})
    assert [body.code for body in ran.of("warning")] == ["cache-not-written"]
    assert ran.losses == usual.losses


def test_threads_are_read_back_from_torch(tmp_path, monkeypatch):
    import torch

    before = torch.get_num_threads()
    try:
        assert run(tmp_path, {"machine.threads.compute": 2}, monkeypatch).applied["threads"] == 2
    finally:
        torch.set_num_threads(before)


def test_paging_needs_cuda_and_says_so(usual, tmp_path, monkeypatch):
    ran = run(tmp_path, {"recipe.optimizer.name": "paged_adamw_32bit"}, monkeypatch)
    assert [body.code for body in ran.of("warning")] == ["optimizer-unpaged"]
    assert ran.losses == pytest.approx(usual.losses, rel=1e-6)


def test_messages_to_the_user(usual, tmp_path, monkeypatch):
    notes = {event.body.note for event in usual.events if event.body.type == "applied"}
    assert {
        "Loading pre-tokenized dataset from cache",
        "SDPA enabled",
        "Using FP32",
        "Optimizer AdamW",
    } <= notes
    # As on a processor with units for the format.
    monkeypatch.setattr(product_speed, "slowdown", lambda dtype: 0.5)
    half = run(tmp_path, {"machine.dtype": "bf16"}, monkeypatch)
    assert "Using BF16" in {event.body.note for event in half.events if event.body.type == "applied"}


def test_checkpoints_are_mirrored(tmp_path, monkeypatch):
    saves = {"recipe.saving.steps": 1, "machine.save_total_limit": 1}
    for number, background in enumerate((True, False)):
        target = tmp_path / f"mirror{number}"
        mirror = {"target": target.as_uri(), "compress": not background, "background": background}
        ran = run(tmp_path / str(number), {**saves, "machine.mirror": mirror}, monkeypatch)
        packed = "" if background else ".zst"
        assert {path.name for path in target.iterdir()} == {f"checkpoint-{step}" for step in (1, 2, 3)}
        assert (target / "checkpoint-3" / "state.json").is_file()
        assert (target / "checkpoint-3" / f"optimizer.safetensors{packed}").is_file()
        assert ran.applied["checkpoint_mirror"].endswith("checkpoint-3")
        bodies = [event.body for event in ran.events]
        copied = [
            i for i, body in enumerate(bodies) if body.type == "applied" and body.key == "checkpoint_mirror"
        ]
        stepped = [i for i, body in enumerate(bodies) if body.type == "progress"]
        assert background or copied[0] < stepped[1]


@pytest.mark.parametrize("wanted", [False, True])
def test_fp32_products_are_formed_where_the_plan_says(wanted, tmp_path, monkeypatch):
    """The measured speeds are near each other, so the plan decides."""
    monkeypatch.setattr("expert_worker.base.product_speed.slowdown", lambda dtype: 1.1)
    ran = run(tmp_path, {"machine.dtype": "bf16", "machine.fp32_products": wanted}, monkeypatch)
    assert ran.applied["fp32_products"] is wanted


@pytest.mark.parametrize("key", ["recipe.adapter.rank", "recipe.adapter.alpha"])
def test_a_plan_without_a_rank_is_refused(key, tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="needs a rank and an alpha"):
        run(tmp_path, {key: None}, monkeypatch)
