"""A run says by what its answers are computed, and on how many threads."""

from pathlib import Path
from typing import Any

import pytest
import torch
from evaluate import tiny
from plans import example_plan
from train.tiny_families import config
from transformers import AutoModelForCausalLM

from expert_worker.evaluate.subject import open_subject
from expert_worker.events import Events


def opened(architecture: str, folder: Path, **changes: Any) -> dict[str, Any]:
    """What opening a tiny model of this architecture has applied."""
    base = folder / "base"
    AutoModelForCausalLM.from_config(config(architecture)).save_pretrained(base)
    tiny.tokenizer().save_pretrained(base)
    changes = {
        "machine.paths.base": str(base),
        "recipe.base.quantization": "none",
        "machine.dtype": "fp32",
        **changes,
    }
    events, memory = Events.in_memory("evaluate")
    open_subject(example_plan(folder, changes), None, events)
    return {it.body.key: it.body for it in memory.events if it.body.type == "applied"}


def test_answers_are_computed_on_the_threads_of_the_plan(tmp_path: Path) -> None:
    """Beside another expert's training, scores have their share of the cores."""
    before = torch.get_num_threads()
    try:
        said = opened("qwen3", tmp_path, **{"machine.threads.compute": before + 1})
        assert said["threads"].value == torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("architecture", ["qwen3", "gpt2"])
def test_a_run_says_which_path_answers(architecture: str, tmp_path: Path) -> None:
    said = opened(architecture, tmp_path)["answers.path"]
    if architecture == "qwen3":
        assert (said.value, said.note) == ("fast", None)
    else:
        assert said.value == "plain"
        assert said.note == "Answers by plain transformers + peft: the architecture gpt2 is not supported"
