"""Training that starts from the weights of a finished adapter: what it takes over, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from scene import put_data, train

from expert_worker.errors import BadInput
from expert_worker.plan import Code, Inputs
from expert_worker.pretokenize.plan_digest import digest_of_files

WEIGHTS = "adapter_model.safetensors"
LORA = {"recipe.adapter.kind": "lora"}
KINDS: dict[str, dict[str, Any]] = {
    "lora": LORA,
    "rslora": {"recipe.adapter.kind": "rslora"},
    "dora": {"recipe.adapter.kind": "dora"},
    "lokr": {"recipe.adapter.kind": "lokr"},
    "ia3": {
        "recipe.adapter.kind": "ia3",
        "recipe.adapter.rank": None,
        "recipe.adapter.alpha": None,
        "recipe.adapter.target_modules": ["k_proj", "v_proj", "down_proj"],
        "recipe.adapter.feedforward_modules": ["down_proj"],
    },
    "prompt": {
        "recipe.adapter.kind": "prompt",
        "recipe.adapter.rank": None,
        "recipe.adapter.alpha": None,
        "recipe.adapter.target_modules": [],
        "recipe.adapter.soft_prompts": [{"name": "style", "tokens": 4, "init": "random", "init_text": None}],
        "recipe.batch.packing": False,
        "machine.fast_path": False,
    },
}


@pytest.fixture(autouse=True)
def _data(monkeypatch):
    put_data(monkeypatch)


def steps(count: int) -> dict[str, Any]:
    return {"recipe.schedule.duration": {"unit": "steps", "value": count}}


def starting(folder: Path) -> dict[str, Any]:
    return {"recipe.adapter.initial": "earlier/final", "machine.paths.initial_adapter": str(folder)}


def weights(run: Any) -> dict[str, torch.Tensor]:
    return load_file(run.output / "final" / WEIGHTS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_step_has_the_loss_that_the_earlier_training_reached(kind, tmp_path):
    earlier = train(tmp_path, {**KINDS[kind], **steps(12)}, output="earlier")
    final = earlier.output / "final"
    still = {"recipe.optimizer.learning_rate": 1e-12}
    new = train(tmp_path, {**KINDS[kind], **still, **steps(1)}, output="new", must_learn=False)
    changes = {**KINDS[kind], **still, **steps(1), **starting(final)}
    continued = train(tmp_path, changes, output="continued", must_learn=False)
    assert continued.applied["adapter.initial"] == "earlier/final"
    assert new.losses[0] == pytest.approx(earlier.losses[0], rel=1e-6)
    assert continued.losses[0] < new.losses[0] - 0.5 * (earlier.losses[0] - earlier.losses[-1])
    taken, given = weights(continued), load_file(final / WEIGHTS)
    assert taken.keys() == given.keys()
    for name, tensor in given.items():
        torch.testing.assert_close(taken[name], tensor, rtol=0, atol=1e-9)
    assert "| Started from | the adapter in `earlier/final` |" in continued.final("README.md").decode()


def test_it_learns_on_and_resumes_to_the_same_bytes(tmp_path):
    earlier = train(tmp_path, {**LORA, **steps(4)}, output="earlier")
    changes = {
        **LORA,
        **steps(6),
        **starting(earlier.output / "final"),
        "recipe.saving": {"strategy": "steps", "steps": 3},
    }
    whole = train(tmp_path, changes, output="whole")
    assert whole.losses[-1] < earlier.losses[-1]
    shutil.copytree(whole.output / "checkpoint-3", tmp_path / "resumed" / "checkpoint-3")
    resumed = train(tmp_path, {**changes, "request.resume": {"from": "newest"}}, output="resumed")
    assert [e.body.step for e in resumed.events if e.body.type == "progress"] == [4, 5, 6]
    assert resumed.final(WEIGHTS) == whole.final(WEIGHTS)


def test_an_adapter_that_changed_since_the_plan_is_refused(tmp_path):
    final = train(tmp_path, {**LORA, **steps(1)}, output="earlier").output / "final"
    planned = digest_of_files([final / "adapter_config.json", final / WEIGHTS])
    inputs = Inputs(recipe="r", data={"earlier/final": planned}, template="t", code=Code(version="1"))
    changes = {**LORA, **steps(1), **starting(final), "inputs": inputs.model_dump(mode="json")}
    train(tmp_path, changes, output="as-planned")
    shutil.rmtree(final)
    shutil.copytree(tmp_path / "as-planned" / "final", final)
    with pytest.raises(BadInput, match="earlier/final has changed since this training was planned"):
        train(tmp_path, changes, output="later")


def test_weights_that_peft_saved_in_16_bits_are_trained_in_32(tmp_path):
    earlier = train(tmp_path, {**LORA, **steps(2)}, output="earlier")
    folder = tmp_path / "foreign"
    folder.mkdir()
    halved = {name: tensor.bfloat16() for name, tensor in weights(earlier).items()}
    save_file(halved, folder / WEIGHTS)
    shutil.copy(earlier.output / "final" / "adapter_config.json", folder)
    still = {"recipe.optimizer.learning_rate": 1e-12, **steps(1)}
    continued = train(tmp_path, {**LORA, **still, **starting(folder)}, must_learn=False)
    for name, tensor in weights(continued).items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, halved[name].float(), rtol=0, atol=1e-9)


def test_other_layers_and_ranks_are_refused_with_the_setting_to_change(tmp_path):
    attention = {"recipe.adapter.target_modules": ["q_proj", "v_proj"]}
    final = train(tmp_path, {**LORA, **attention, **steps(1)}, output="earlier").output / "final"
    with pytest.raises(BadInput, match=r"its layers are others: .*down_proj.* is missing") as refused:
        train(tmp_path, {**LORA, **steps(1), **starting(final)}, output="more")
    assert refused.value.hint == "Set target_modules to its layers: q_proj, v_proj."
    fewer = {"recipe.adapter.target_modules": ["q_proj"], **starting(final)}
    with pytest.raises(BadInput, match=r"v_proj.* has no place"):
        train(tmp_path, {**LORA, **steps(1), **fewer}, output="fewer")
    with pytest.raises(BadInput, match=r"has the shape \(4, \d+\), and \(8, \d+\) is to be trained"):
        train(tmp_path, {**LORA, **attention, **steps(1), **starting(final), "recipe.adapter.rank": 8})


def test_a_damaged_adapter_and_one_of_other_weights_are_refused(tmp_path):
    final = train(tmp_path, {**LORA, **steps(1)}, output="earlier").output / "final"
    damaged = tmp_path / "damaged"
    shutil.copytree(final, damaged)
    save_file({name: tensor + 1 for name, tensor in load_file(final / WEIGHTS).items()}, damaged / WEIGHTS)
    with pytest.raises(BadInput, match="is damaged or was changed") as refused:
        train(tmp_path, {**LORA, **steps(1), **starting(damaged)}, output="of-damaged")
    assert (refused.value.hint or "").endswith("; initial_adapter names a checkpoint of the run.")
    record = json.loads((final / "expert.json").read_text())
    record["base"]["files"]["model.safetensors"]["sha256"] = "0" * 64
    (final / "expert.json").write_text(json.dumps(record))
    with pytest.raises(BadInput, match=r"is not the file that .* was trained on") as refused:
        train(tmp_path, {**LORA, **steps(1), **starting(final)}, output="of-others")
    assert "initial_adapter null" in (refused.value.hint or "")


def test_values_that_are_not_finite_are_refused(tmp_path):
    final = train(tmp_path, {**LORA, **steps(1)}, output="earlier").output / "final"
    broken = {name: tensor.fill_(torch.nan) for name, tensor in load_file(final / WEIGHTS).items()}
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    save_file(broken, foreign / WEIGHTS)
    shutil.copy(final / "adapter_config.json", foreign)
    with pytest.raises(BadInput, match="not finite") as refused:
        train(tmp_path, {**LORA, **steps(1), **starting(foreign)})
    assert "initial_adapter null" in (refused.value.hint or "")


def test_nothing_of_the_adapter_is_left_out(tmp_path):
    """On the head and beside the layers too: such tensors were left out without a warning."""
    wide = {"recipe.adapter.target_modules": ["q_proj", "lm_head"], "machine.fast_path": False}
    final = train(tmp_path, {**LORA, **wide, **steps(1)}, output="earlier").output / "final"
    fewer = {"recipe.adapter.target_modules": ["q_proj"], **starting(final)}
    with pytest.raises(BadInput, match=r"lm_head\.lora_A\.weight has no place") as refused:
        train(tmp_path, {**LORA, **steps(1), **fewer}, output="fewer")
    assert refused.value.hint == "Set target_modules to its layers: lm_head, q_proj."
    train(tmp_path, {**LORA, **wide, **steps(1), **starting(final)}, output="same")
    table = {**wide, "recipe.adapter.target_modules": ["q_proj", "embed_tokens"]}
    on_table = train(tmp_path, {**LORA, **table, **steps(1)}, output="on-table").output / "final"
    train(tmp_path, {**LORA, **table, **steps(1), **starting(on_table)}, output="same-table")
    plain = train(tmp_path, {**LORA, **steps(1)}, output="plain").output / "final"
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    shutil.copy(plain / "adapter_config.json", foreign)
    ones = torch.ones(4, 4)
    save_file(
        {**load_file(plain / WEIGHTS), "base_model.model.model.embed_tokens.weight": ones}, foreign / WEIGHTS
    )
    with pytest.raises(BadInput, match=r"it holds weights of the base: .*embed_tokens") as refused:
        train(tmp_path, {**LORA, **steps(1), **starting(foreign)}, output="more")
    assert "export --merge --from FOLDER" in (refused.value.hint or "")


def test_layers_of_some_numbers_only_are_not_a_matter_of_target_modules(tmp_path):
    final = train(tmp_path, {**LORA, **steps(1)}, output="earlier").output / "final"
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    shutil.copy(final / "adapter_config.json", foreign)
    first = {name: it for name, it in load_file(final / WEIGHTS).items() if ".layers.0." in name}
    save_file(first, foreign / WEIGHTS)
    with pytest.raises(BadInput, match=r"layers\.1\..* is missing") as refused:
        train(tmp_path, {**LORA, **steps(1), **starting(foreign)})
    assert "target_modules" not in (refused.value.hint or "")
