"""Greedy answers of llama.cpp, held against those of plain transformers and peft."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from transformers import RepetitionPenaltyLogitsProcessor

from expert_worker.errors import Failed, Missing
from expert_worker.evaluate.decode import cut, end_ids, repetition_penalty, write, write_tokens
from expert_worker.evaluate.rows import Message, text_of
from expert_worker.events import Events
from expert_worker.export.llama_answers import CONTEXT
from expert_worker.plan import Decoding
from expert_worker.process.child import child_environment
from expert_worker.results import AnswerCheck
from expert_worker.train.fast.answering import plain_answers

# llama.cpp multiplies f16 weights: two tokens whose logits are closer than this may change places.
NEAR = 0.05
# On blocks of 8 or 4 bits it rounds the other factor to 8 bits too.
NEAR_QUANTIZED = 0.5
# How many of the likeliest tokens are compared with another answer; a less likely one is not a near tie.
_LIKELY = 64


@dataclass(frozen=True)
class Reference:
    """A model in transformers, its tokenizer, and the folder's own settings."""

    model: Any
    tokenizer: Any
    decoding: Decoding
    template: str


def require() -> None:
    if find_spec("xllamacpp") is None:
        raise Missing(
            "GGUF files are compared through llama.cpp, which is not installed",
            hint="Install it with `pip install 'expert-worker[serve]'`.",
            code="llama-cpp-missing",
        )


def has_room(reference: Reference, question: Sequence[Message]) -> bool:
    """Whether llama.cpp can read the question and answer it."""
    try:
        prompt = _prompt(reference, question)
    except TemplateError:
        return False
    return prompt.shape[1] + reference.decoding.max_new_tokens < CONTEXT


def compare(
    reference: Reference,
    model: Path,
    adapter: Path | None,
    questions: Sequence[Sequence[Message]],
    events: Events,
    *,
    near: float = NEAR,
    unquantized: Sequence[str] | None = None,
) -> AnswerCheck:
    """Raises where an answer differs by more than rounding. `unquantized` are the answers of the weights
    before they were quantized, which are only counted."""
    answers = _llama(reference, model, adapter, questions, events)
    equal = ties = 0
    for question, other in zip(questions, answers, strict=True):
        own, gap = _answer(reference, question, other)
        if gap is None:
            equal += 1
        elif gap < near:
            ties += 1
        else:
            asked = text_of(question[-1])[:200]
            raise Failed(
                f"llama.cpp answers otherwise than the adapter. Asked {asked!r} it says {other!r}, the "
                f"adapter says {own!r}. Nothing was exported.",
                hint="Export with --merge alone, and convert the folder with llama.cpp's own script.",
                code="export-differs",
            )
    document = AnswerCheck(asked=len(questions), equal=equal, near_ties=ties)
    if unquantized is None:
        return document
    stops = reference.decoding.stop_sequences
    kept = sum(own == _whole(cut(other, stops)) for own, other in zip(unquantized, answers, strict=True))
    return document.model_copy(update={"equal_unquantized": kept})


def own_answers(reference: Reference, questions: Sequence[Sequence[Message]]) -> list[str]:
    with plain_answers(reference.model):
        return [_own_answer(reference, _prompt(reference, question)) for question in questions]


def _llama(
    reference: Reference,
    model: Path,
    adapter: Path | None,
    questions: Sequence[Sequence[Message]],
    events: Events,
) -> list[str]:
    require()
    decoding = reference.decoding
    body = {
        "temperature": 0,
        "max_tokens": decoding.max_new_tokens,
        "stop": [stop for stop in decoding.stop_sequences if stop],
        "cache_prompt": False,
        # Of all tokens, as transformers does.
        "repeat_penalty": repetition_penalty(reference.model),
        "repeat_last_n": CONTEXT,
        "lora": [] if adapter is None else [{"id": 0, "scale": 1.0}],
    }
    request = {
        "model": str(model),
        "adapter": str(adapter) if adapter is not None else None,
        "template": reference.template,
        # Its threads spin while they wait for each other: on a busy machine all cores are slower than half.
        "threads": max(1, torch.get_num_threads() // 2),
        "bodies": [{**body, "messages": list(question)} for question in questions],
    }
    answers = _asked(request, events)
    return [
        _without_thought_of_prompt(reference, question, answer)
        for question, answer in zip(questions, answers, strict=True)
    ]


def _without_thought_of_prompt(reference: Reference, question: Sequence[Message], answer: str) -> str:
    """llama.cpp puts the empty thought at the end of some prompts before the answer."""
    prompt = _prompt_text(reference, question).rstrip()
    if not prompt.endswith("</think>"):
        return answer
    return answer.removeprefix(prompt[prompt.rfind("<think>") :])


def _asked(request: dict[str, Any], events: Events) -> list[str]:
    command = [sys.executable, "-P", "-m", "expert_worker.export.llama_answers"]
    environment = child_environment(EXPERT_PARENT_PID=str(os.getpid()))
    answers: list[str] = []
    with (
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed, env=environment
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        try:
            with suppress(BrokenPipeError), process.stdin as stdin:
                stdin.write(json.dumps(request).encode())
            for line in process.stdout:
                events.stop.raise_if_requested()
                found = json.loads(line)
                if "refused" in found:
                    raise Failed(f"llama.cpp refused a prompt: {found['refused']}", code="llama-cpp-failed")
                answers.append(str(found["answer"]))
                events.advance("compare answers", len(answers), len(request["bodies"]))
        except BaseException:
            process.kill()
            raise
        status = process.wait()
        printed.seek(0)
        last = printed.read().decode(errors="replace").strip().splitlines()[-1:]
    if len(answers) < len(request["bodies"]):
        raise Failed(
            f"llama.cpp ended with status {status} before it had answered: {''.join(last)[:300]}",
            hint="Check that there is memory for the model a second time, or reinstall xllamacpp.",
            code="llama-cpp-failed",
        )
    return answers


def _whole(text: str) -> str:
    """llama.cpp leaves out white space at an answer's ends, and a character that the limit cut in two."""
    return text.rstrip("\N{REPLACEMENT CHARACTER}").strip()


def _prompt_text(reference: Reference, question: Sequence[Message]) -> str:
    text: str = reference.tokenizer.apply_chat_template(
        list(question), chat_template=reference.template, add_generation_prompt=True, tokenize=False
    )
    return text


def _prompt(reference: Reference, question: Sequence[Message]) -> torch.Tensor:
    text = _prompt_text(reference, question)
    return torch.tensor([reference.tokenizer(text, add_special_tokens=False)["input_ids"]])


def _own_answer(reference: Reference, ids: torch.Tensor) -> str:
    mask = torch.ones_like(ids)
    (written,) = write(reference.model, reference.tokenizer, ids, mask, reference.decoding)
    return _whole(written.text)


def _answer(reference: Reference, question: Sequence[Message], other: str) -> tuple[str, float | None]:
    """The reference's answer, and by how much it prefers it to `other` where they part."""
    ids = _prompt(reference, question)
    other = _whole(cut(other, reference.decoding.stop_sequences))
    with plain_answers(reference.model):
        own = _own_answer(reference, ids)
        return own, None if own == other else preference(reference, ids, other)


def preference(reference: Reference, ids: torch.Tensor, other: str) -> float:
    """By how much the reference prefers its own next token to the best one of another answer, where the texts
    part: the same text can be made of other tokens."""
    model, tokenizer, decoding = reference.model, reference.tokenizer, reference.decoding
    tokens = write_tokens(model, tokenizer, ids, torch.ones_like(ids), decoding)[0].tolist()
    ends = end_ids(model, tokenizer, decoding.stop_sequences)

    def text(of: list[int]) -> str:
        found: str = tokenizer.decode(of, skip_special_tokens=True)
        return found.rstrip("\N{REPLACEMENT CHARACTER}").lstrip()

    def parts(place: int) -> bool:
        return tokens[place] in ends or not other.startswith(text(tokens[: place + 1]))

    place = next((place for place in range(len(tokens)) if parts(place)), len(tokens))
    common = tokens[:place]
    seen = torch.cat([ids, torch.tensor([common], dtype=torch.long)], dim=1)
    with torch.no_grad():
        found = model(input_ids=seen.to(model.device)).logits[:, -1].float().cpu()
    logits = RepetitionPenaltyLogitsProcessor(repetition_penalty(model))(seen, found)[0]
    best = logits.topk(min(_LIKELY, len(logits)))
    over = other.strip() == text(common).strip()
    for logit, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        longer = text([*common, token])
        if over if token in ends else longer != text(common) and other.startswith(longer):
            return float(best.values[0]) - float(logit)
    return float(best.values[0] - best.values[-1])
