"""Whether an expert answers the same alone, behind the server, and among other experts' requests."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from aiohttp import ClientSession, ClientTimeout
from questions import Question, plan_of
from running import Running, running

from expert_worker.base import locate
from expert_worker.events import Events
from expert_worker.export.llama_cpp import NEAR, Reference, preference

SHOWN = 5
# A busy machine is slow, and no wrong answer.
MOST_SECONDS = 1800
WAIT = ClientTimeout(total=MOST_SECONDS)


@dataclass(frozen=True)
class Said:
    question: Question
    by_transformers: str
    alone: str
    # By how much transformers prefers its own token where the two answers part.
    gap: float | None

    @property
    def same(self) -> bool:
        return self.gap is None


async def agree(
    runs: Sequence[Path], questions: Sequence[Question], clients: int, requests: int, threads: int
) -> dict[str, Any]:
    with running(runs, *options(clients, 2 * clients, threads)) as server:
        alone = []
        for question in questions:
            alone.append(await ask(server, question))
            say(f"alone {len(alone)} of {len(questions)}")
        mixed = Random(7).choices(range(len(questions)), k=requests)
        answers = await _at_once(server, [questions[place] for place in mixed], clients)
        engine = server.ready["engine"]
    leaks = [
        {
            "expert": questions[place].expert,
            "question": str(questions[place]),
            "alone": alone[place],
            "mixed": text,
        }
        for place, text in zip(mixed, answers, strict=True)
        if text != alone[place]
    ]
    say(f"{len(leaks)} of {requests} mixed answers are not those of the expert alone")
    said = by_transformers(questions, alone, threads)
    return {
        "ok": not leaks and all(one.gap is None or one.gap < NEAR for one in said),
        "engine": engine,
        "clients": clients,
        "mixed_requests": requests,
        "mixed_other_than_alone": len(leaks),
        "leaks": leaks[:SHOWN],
        "experts": {name: _of_expert(said, name) for name in dict.fromkeys(one.expert for one in questions)},
    }


def options(parallel: int, queue: int, threads: int) -> list[str]:
    found = {"parallel": parallel, "queue": queue, "threads": threads, "timeout": MOST_SECONDS}
    return [f"--{name}={value}" for name, value in found.items()]


def say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


async def ask(server: Running, question: Question, session: ClientSession | None = None) -> str:
    if session is None:
        async with ClientSession(timeout=WAIT) as own:
            return await ask(server, question, own)
    async with session.post(f"{server.url}/v1/chat/completions", json=question.body) as response:
        document = await response.json()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {document}")
        return str(document["choices"][0]["message"]["content"])


async def _at_once(server: Running, questions: Sequence[Question], clients: int) -> list[str]:
    free = asyncio.Semaphore(clients)
    async with ClientSession(timeout=WAIT) as session:

        async def one(question: Question) -> str:
            async with free:
                answer = await ask(server, question, session)
                say(f"mixed {question.expert}")
                return answer

        return await asyncio.gather(*map(one, questions))


def by_transformers(questions: Sequence[Question], alone: Sequence[str], threads: int) -> list[Said]:
    """As any user of peft would: the base from its folder, everything else from `final/`. In fp32: its values
    are those of the 16-bit weights that the server holds."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    torch.set_num_threads(threads)
    answers: list[Said] = []
    loaded: Any = None
    for question, served in zip(questions, alone, strict=True):
        if loaded is None or loaded[0] != question.run:
            final, plan = question.run / "final", plan_of(question.run)
            base = locate(plan.recipe.base, plan.machine.paths, Events.in_memory("evaluate")[0])
            model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
            model = PeftModel.from_pretrained(model, final).eval()
            settings = GenerationConfig.from_pretrained(final)
            greedy = plan.recipe.decoding.model_copy(update={"temperature": 0.0, "grammar": None})
            loaded = (question.run, model, AutoTokenizer.from_pretrained(final), settings, greedy)
        _, model, tokenizer, settings, greedy = loaded
        given = tokenizer.apply_chat_template(
            list(question.messages), add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        with torch.inference_mode():
            found = model.generate(**given, generation_config=settings, tokenizer=tokenizer)
        say(f"transformers {len(answers) + 1} of {len(questions)}")
        text = _text(tokenizer, found[0, given["input_ids"].shape[1] :], settings)
        gap = None
        if text.strip() != served.strip():
            reference = Reference(model, tokenizer, greedy, tokenizer.chat_template)
            gap = preference(reference, given["input_ids"], served.strip())
        answers.append(Said(question, text, served, gap))
    return answers


def _text(tokenizer: Any, ids: Any, settings: Any) -> str:
    """Without the stop text, which transformers leaves in."""
    text: str = tokenizer.decode(ids, skip_special_tokens=True)
    ends = [text.find(stop) for stop in settings.stop_strings or () if stop in text]
    return text[: min(ends)] if ends else text


def _of_expert(said: Sequence[Said], name: str) -> dict[str, Any]:
    own = [one for one in said if one.question.expert == name]
    other = [one for one in own if not one.same]
    return {
        "questions": len(own),
        "same_as_transformers": len(own) - len(other),
        "near_ties": sum(one.gap < NEAR for one in other if one.gap is not None),
        "other": [
            {
                "question": str(one.question),
                "transformers": one.by_transformers,
                "server": one.alone,
                "gap": one.gap,
            }
            for one in other[:SHOWN]
        ],
    }
