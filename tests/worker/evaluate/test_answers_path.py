"""A run says by what its answers are computed."""

from pathlib import Path

import pytest
from evaluate import tiny
from plans import example_plan
from train.tiny_families import config
from transformers import AutoModelForCausalLM

from expert_worker.evaluate.subject import open_subject
from expert_worker.events import Events


@pytest.mark.parametrize("architecture", ["qwen3", "gpt2"])
def test_a_run_says_which_path_answers(architecture: str, tmp_path: Path) -> None:
    base = tmp_path / "base"
    AutoModelForCausalLM.from_config(config(architecture)).save_pretrained(base)
    tiny.tokenizer().save_pretrained(base)
    changes = {"machine.paths.base": str(base), "recipe.base.quantization": "none", "machine.dtype": "fp32"}
    events, memory = Events.in_memory("evaluate")
    open_subject(example_plan(tmp_path, changes), None, events)
    (said,) = [it.body for it in memory.events if it.body.type == "applied" and it.body.key == "answers.path"]
    if architecture == "qwen3":
        assert (said.value, said.note) == ("fast", None)
    else:
        assert said.value == "plain"
        assert said.note == "Answers by plain transformers + peft: the architecture gpt2 is not supported"
