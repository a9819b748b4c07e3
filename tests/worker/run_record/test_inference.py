"""The chat template and the generation settings beside an adapter."""

from pathlib import Path
from typing import Any

import pytest
from evaluate import tiny
from plans import example_plan
from transformers import AutoTokenizer, GenerationConfig

from expert_worker._native import BUILTIN_TEMPLATES
from expert_worker.evaluate.decode import Prompt, answer_all, end_ids
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.subject import template_of
from expert_worker.plan import Decoding, Recipe
from expert_worker.run_record.final import tokenizer_files
from expert_worker.run_record.inference import chat_template, generation_config, inference_files

MESSAGES = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "A question?"},
]


def recipe(folder: Path, template: str = "tokenizer", **decoding: Any) -> Recipe:
    changes = {f"recipe.decoding.{name}": value for name, value in decoding.items()}
    return example_plan(folder, {"recipe.template": {"kind": template, "source": None}, **changes}).recipe


def written(folder: Path, of: Recipe, tokenizer: Any) -> Path:
    """The tokenizer's files and the run's over them, as `final/` has them."""
    target = folder / "final"
    target.mkdir()
    found = {
        **tokenizer_files(tokenizer),
        **inference_files(of.template, of.decoding, tiny.model(), tokenizer),
    }
    for name, content in found.items():
        (target / name).write_bytes(content)
    return target


@pytest.mark.parametrize("template", ["tokenizer", *(name for name, _ in BUILTIN_TEMPLATES)])
def test_transformers_renders_the_prompts_of_evaluate(template: str, tmp_path: Path) -> None:
    of = recipe(tmp_path, template)
    maker = PromptMaker(tiny.tokenizer(), template_of(of.template, tiny.tokenizer()))
    loaded = AutoTokenizer.from_pretrained(written(tmp_path, of, tiny.tokenizer()))
    for thinking in ({}, {"enable_thinking": True}):
        text = loaded.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True, **thinking)
        assert text == maker.text(MESSAGES)


def test_a_tokenizer_without_a_template_gets_the_one_that_training_used(tmp_path: Path) -> None:
    bare = type(tiny.tokenizer()).from_pretrained
    tiny.tokenizer().save_pretrained(tmp_path / "bare")
    (tmp_path / "bare" / "chat_template.jinja").unlink()
    tokenizer = bare(tmp_path / "bare")
    of = recipe(tmp_path)
    loaded = AutoTokenizer.from_pretrained(written(tmp_path, of, tokenizer))
    assert loaded.chat_template == dict(BUILTIN_TEMPLATES)["chatml"]


def test_thinking_is_switched_off_once(tmp_path: Path) -> None:
    of = recipe(tmp_path, "qwen3")
    text = chat_template(of.template, tiny.tokenizer())
    assert text.count("set enable_thinking = false") == 1
    again = of.template.model_copy(update={"kind": "custom", "source": text})
    assert chat_template(again, tiny.tokenizer()) == text


def test_settings_keep_the_bases_own_and_overrule_its_sampling(tmp_path: Path) -> None:
    model = tiny.model()
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.7, top_k=20, repetition_penalty=1.1, eos_token_id=[0, 3], pad_token_id=0
    )
    greedy = recipe(tmp_path, stop_sequences=[], max_new_tokens=9, temperature=0.0).decoding
    assert generation_config(greedy, model, tiny.tokenizer()) == {
        "do_sample": False,
        "repetition_penalty": 1.1,
        "eos_token_id": [0, 3],
        "pad_token_id": 0,
        "max_new_tokens": 9,
    }
    warm = recipe(tmp_path, temperature=0.5, top_p=0.9, top_k=5, min_p=0.1, stop_sequences=["a b"]).decoding
    found = generation_config(warm, model, tiny.tokenizer())
    assert (found["do_sample"], found["temperature"], found["top_p"], found["top_k"]) == (True, 0.5, 0.9, 5)
    assert found["min_p"] == 0.1 and found["stop_strings"] == ["a b"]


def test_a_stop_text_that_is_one_token_is_an_end_and_not_a_text(tmp_path: Path) -> None:
    decoding = recipe(tmp_path, stop_sequences=["<user>", ";"], temperature=0.0).decoding
    found = generation_config(decoding, tiny.model(), tiny.tokenizer())
    assert found["eos_token_id"] == [0, 1] and found["stop_strings"] == [";"]
    assert end_ids(tiny.model(), tiny.tokenizer()) == [0]


def test_an_answer_ends_at_a_special_token_that_is_a_stop_sequence(tmp_path: Path) -> None:
    """Special tokens are left out of decoded text, where a search for the sequence would not find them."""
    model, tokenizer = tiny.model(), tiny.tokenizer()
    prompts = [Prompt(tokenizer(f"question {number}")["input_ids"]) for number in range(12)]

    def answers(*stops: str) -> list[str]:
        decoding: Decoding = recipe(
            tmp_path, stop_sequences=list(stops), temperature=0.0, max_new_tokens=40
        ).decoding
        return [answer.text for answer in answer_all(model, tokenizer, prompts, decoding)]

    free, stopped = answers(), answers("<system>", "<assistant>", "<user>")
    assert free != stopped
    assert all(long.startswith(short) for long, short in zip(free, stopped, strict=True))
