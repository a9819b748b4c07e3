"""Text from a model: batches in order of length, a KV cache, an end at EOS or at a stop sequence."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, takewhile
from typing import Any

import torch
from transformers import DynamicCache, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer

from expert_worker.base import positions, token_vectors
from expert_worker.evaluate.draw import Draw
from expert_worker.evaluate.generation import GREEDY, answering
from expert_worker.evaluate.grammar import Constraint
from expert_worker.evaluate.prompt_cache import PromptKeys, SharedBeginning, cache_of, leaves_early
from expert_worker.evaluate.rows_at_once import RowsAtOnce
from expert_worker.plan import Decoding, Recipe
from expert_worker.train.fast.cache_name import CACHE, cache_in
from expert_worker.train.fast.eligible import has_virtual_tokens

LOOK_BACK = 24
# Tokens after which the answers that have ended leave the batch: fewer rows are faster.
STRETCH = 16


@dataclass(frozen=True)
class Prompt:
    """Token ids of a rendered prompt."""

    ids: Sequence[int]


@dataclass(frozen=True)
class Written:
    """An answer without what ended it."""

    text: str
    # It ends at `max_new_tokens`, or at the last position of the base.
    cut: bool = False


class _Stop(StoppingCriteria):
    """Ends a row whose newest text holds a stop sequence, and every row when the user asks to stop."""

    def __init__(self, tokenizer: Any, stops: Sequence[str], start: int, asked: Callable[[], bool]) -> None:
        self.tokenizer, self.start, self.asked = tokenizer, start, asked
        # An empty text would end every answer; nothing else takes it for a stop sequence either.
        self.stops = [stop for stop in stops if stop]
        # A token has at least one byte. One more: some tokenizers drop the space that a text begins with.
        self.look_back = max([LOOK_BACK, *(1 + len(stop.encode()) for stop in stops)])
        # The rows that it has ended.
        self.ended = torch.zeros(1, dtype=torch.bool)

    def __call__(self, input_ids: torch.Tensor, _scores: Any, **_: Any) -> torch.Tensor:
        count, device = input_ids.shape[0], input_ids.device
        if self.asked():
            self.ended = torch.ones(count, dtype=torch.bool, device=device)
            return self.ended
        if not self.stops:
            return torch.zeros(count, dtype=torch.bool, device=device)
        tails = input_ids[:, max(self.start, input_ids.shape[1] - self.look_back) :]
        texts = self.tokenizer.batch_decode(tails, skip_special_tokens=True)
        done = [any(stop in text for stop in self.stops) for text in texts]
        self.ended = self.ended.to(device) | torch.tensor(done, dtype=torch.bool, device=device)
        return self.ended

    def keep(self, _rows: Sequence[int]) -> None:
        """None of the rows that are left has ended."""
        self.ended = torch.zeros(1, dtype=torch.bool)


def scoring(recipe: Recipe) -> Decoding:
    """The settings of answers that are scored."""
    most = recipe.evaluation.max_new_tokens
    return recipe.decoding if most is None else recipe.decoding.model_copy(update={"max_new_tokens": most})


def answer_all(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    decoding: Decoding,
    *,
    seed: int = 0,
    each_batch: Callable[[int], None] = lambda _: None,
    stop_asked: Callable[[], bool] = lambda: False,
    prompts_read: Callable[[Sequence[int], PromptKeys], None] | None = None,
    rows: RowsAtOnce | None = None,
) -> list[Written]:
    """The model's answer to each prompt. `each_batch` is called with the number of rows of each batch, and
    `prompts_read` with places and their prompts, where the model `keeps_prompts`. It is called again from the
    same first place on, with fewer places, for rows that did not fit together. A prompt that the base has no
    position after has an empty answer, which is cut.
    """
    token_vectors.check_ids(model, tokenizer, (prompt.ids for prompt in prompts))
    rows = rows or RowsAtOnce.of(model)
    answers = [Written("", cut=not has_room(model, len(prompt.ids))) for prompt in prompts]
    pad = pad_id(model, tokenizer)
    with answering(model):
        asked = [prompt.ids for prompt in prompts if has_room(model, len(prompt.ids))]
        beginning = SharedBeginning.of(model, pad, asked)

        def answered(places: Sequence[int]) -> list[Written]:
            ids, mask = beginning.padded([prompts[place].ids for place in places], pad)
            return write(
                model,
                tokenizer,
                ids,
                mask,
                decoding,
                seeds=[_seed_of(seed, prompts[place], 0) for place in places],
                stop_asked=stop_asked,
                cache=beginning.repeated(len(places)),
                prompts_read=None if prompts_read is None else partial(prompts_read, places),
            )

        for batch in _batches(model, prompts, rows.batch, decoding):
            for places, written in rows.parts(batch, answered):
                for place, answer in zip(places, written, strict=True):
                    answers[place] = answer
            each_batch(len(batch))
        if len(asked) < len(prompts):
            each_batch(len(prompts) - len(asked))
    return answers


def sample_all(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    decoding: Decoding,
    count: int,
    *,
    seed: int = 0,
    each_batch: Callable[[int], None] = lambda _: None,
    stop_asked: Callable[[], bool] = lambda: False,
    rows: RowsAtOnce | None = None,
) -> list[list[str]]:
    """`count` sampled answers to each prompt. Each has its own random numbers, which follow from the prompt:
    what else is asked changes at most how logits are rounded. `each_batch` is called with the number of
    prompts. Once a stop is asked for, the prompts that are left stay without answers.
    """
    token_vectors.check_ids(model, tokenizer, (prompt.ids for prompt in prompts))
    rows = rows or RowsAtOnce.of(model)
    found = [[] if has_room(model, len(prompt.ids)) else [""] * count for prompt in prompts]
    with answering(model):

        def sampled(places: Sequence[int]) -> list[list[str]]:
            asked = [prompts[place] for place in places]
            return _samples(model, tokenizer, asked, decoding, count, seed, stop_asked, rows.most)

        for batch in _batches(model, prompts, max(1, rows.batch // count), decoding):
            if stop_asked():
                break
            for places, samples in rows.parts(batch, sampled, count):
                for place, texts in zip(places, samples, strict=True):
                    found[place] = texts
            each_batch(len(batch))
        if without := sum(not has_room(model, len(prompt.ids)) for prompt in prompts):
            each_batch(without)
    return found


def has_room(model: Any, tokens: int) -> bool:
    """Whether the base has a position after a prompt of so many."""
    most = positions.longest(model)
    return most is None or tokens < most


def within_positions(model: Any, decoding: Decoding, tokens: int) -> Decoding:
    """With answers that end at the base's last position, after prompts of so many tokens."""
    most = positions.longest(model)
    if most is None or tokens + decoding.max_new_tokens <= most:
        return decoding
    if tokens >= most:
        raise positions.too_long(tokens, most)
    return decoding.model_copy(update={"max_new_tokens": most - tokens})


def _batches(model: Any, prompts: Sequence[Prompt], size: int, decoding: Decoding) -> Iterator[Sequence[int]]:
    """Places of prompts that are answered together, the shortest first. With a soft prompt they have one
    length: its virtual tokens come before the padding, so a padded prompt would stand too far from them. So
    have those whose answers end at the base's last position: padding has positions too. Those that have none
    after them are left out."""

    def length(place: int) -> int:
        return len(prompts[place].ids)

    def ends_early(place: int) -> bool:
        return within_positions(model, decoding, length(place)) is not decoding

    order = sorted((at for at in range(len(prompts)) if has_room(model, length(at))), key=length)
    whole = [] if has_virtual_tokens(model) else list(takewhile(lambda place: not ends_early(place), order))
    alike = [list(same) for _, same in groupby(order[len(whole) :], length)]
    for places in (whole, *alike):
        for first in range(0, len(places), size):
            yield places[first : first + size]


def _samples(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    decoding: Decoding,
    count: int,
    seed: int,
    stop_asked: Callable[[], bool],
    rows: int,
) -> list[list[str]]:
    """`rows` is how many fit at once."""
    pad = pad_id(model, tokenizer)
    ids, mask = SharedBeginning().padded([prompt.ids for prompt in prompts], pad)
    prompt_cache = cache_of(model, pad, ids, mask)
    found = [list[str]() for _ in prompts]
    most = max(1, rows // len(prompts))
    for first in range(0, count, most):
        each = min(most, count - first)
        cache = copy.deepcopy(prompt_cache)
        if cache is not None:
            cache.batch_repeat_interleave(each)
        written = write(
            model,
            tokenizer,
            ids.repeat_interleave(each, 0),
            mask.repeat_interleave(each, 0),
            decoding,
            seeds=[_seed_of(seed, prompt, first + place) for prompt in prompts for place in range(each)],
            stop_asked=stop_asked,
            cache=cache,
        )
        for place, texts in enumerate(found):
            texts += [answer.text for answer in written[place * each : (place + 1) * each]]
    return found


def _seed_of(seed: int, prompt: Prompt, sample: int) -> int:
    text = json.dumps([seed, sample, *map(int, prompt.ids)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def write(
    model: Any,
    tokenizer: Any,
    ids: torch.Tensor,
    mask: torch.Tensor,
    decoding: Decoding,
    *,
    seeds: Sequence[int] = (),
    stop_asked: Callable[[], bool] = lambda: False,
    streamer: BaseStreamer | None = None,
    cache: DynamicCache | None = None,
    prompts_read: Callable[[PromptKeys], None] | None = None,
) -> list[Written]:
    """One batch of left-padded prompts, with a seed each where tokens are drawn. `cache` has the keys and
    values of their first tokens.
    """
    decoding = within_positions(model, decoding, ids.shape[1])
    found = write_tokens(
        model,
        tokenizer,
        ids,
        mask,
        decoding,
        seeds=seeds,
        stop_asked=stop_asked,
        streamer=streamer,
        cache=cache,
        prompts_read=prompts_read,
    )
    ends = set(end_ids(model, tokenizer, decoding.stop_sequences))
    answers = [list(takewhile(lambda token: token not in ends, row)) for row in found.tolist()]
    texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
    return [_written(text, len(ids), decoding) for text, ids in zip(texts, answers, strict=True)]


def _written(text: str, tokens: int, decoding: Decoding) -> Written:
    before = cut(text, decoding.stop_sequences)
    return Written(before, cut=tokens >= decoding.max_new_tokens and before == text)


def write_tokens(
    model: Any,
    tokenizer: Any,
    ids: torch.Tensor,
    mask: torch.Tensor,
    decoding: Decoding,
    *,
    seeds: Sequence[int] = (),
    stop_asked: Callable[[], bool] = lambda: False,
    streamer: BaseStreamer | None = None,
    cache: DynamicCache | None = None,
    prompts_read: Callable[[PromptKeys], None] | None = None,
) -> torch.Tensor:
    """What follows the prompts, a row each; padding follows an answer that ended early."""
    pad, ends = pad_id(model, tokenizer), end_ids(model, tokenizer, decoding.stop_sequences)
    stop = _Stop(tokenizer, decoding.stop_sequences, ids.shape[1], stop_asked)
    processors: list[Constraint | Draw] = []
    if decoding.grammar is not None:
        processors.append(Constraint(decoding.grammar, model, tokenizer, ends, ids, mask))
    if decoding.temperature > 0:
        processors.append(Draw(decoding, seeds))
    answers = torch.full((len(ids), decoding.max_new_tokens), pad, dtype=torch.long)
    rows, written = torch.arange(len(ids)), 0
    at_once = streamer is not None or len(ids) == 1 or not leaves_early(model)
    while True:
        left = decoding.max_new_tokens - written
        stretch = left if at_once else min(STRETCH, left)
        with answering(model), torch.inference_mode():
            made = model.generate(
                input_ids=ids.to(model.device),
                attention_mask=mask.to(model.device),
                max_new_tokens=stretch,
                pad_token_id=pad,
                eos_token_id=ends or None,
                stopping_criteria=StoppingCriteriaList([stop]),
                logits_processor=LogitsProcessorList(processors),
                streamer=streamer,
                use_cache=True,
                return_dict_in_generate=True,
                **({} if cache is None else {CACHE: cache}),
                **GREEDY,
            )
        if prompts_read is not None and written == 0:
            prompts_read(PromptKeys.of(ids, mask, cache_in(made)))
        found = made.sequences[:, ids.shape[1] :].cpu()
        answers[rows, written : written + found.shape[1]] = found
        written += found.shape[1]
        going = ~(stop.ended.cpu() | torch.isin(found, torch.tensor(ends)).any(dim=1))
        if written >= decoding.max_new_tokens or not bool(going.any()):
            return answers[:, :written]
        cache = cache_in(made)
        ids = made.sequences.cpu()
        mask = torch.cat([mask, torch.ones_like(found)], dim=1)
        if not bool(going.all()):
            kept = going.nonzero().flatten()
            cache.batch_select_indices(kept.to(model.device))
            ids, mask, rows = ids[kept], mask[kept], rows[kept]
            for part in (stop, *processors):
                part.keep(kept.tolist())


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop sequence."""
    ends = [place for place in (text.find(stop) for stop in stops if stop) if place >= 0]
    return text[: min(ends)] if ends else text


def repetition_penalty(model: Any) -> float:
    """The base's own, for all tokens before, those of the prompt too. `model.generate` applies it itself."""
    return float(getattr(model.generation_config, "repetition_penalty", None) or 1.0)


def end_ids(model: Any, tokenizer: Any, stops: Sequence[str] = ()) -> list[int]:
    """Every token that ends an answer: the tokenizer's own, those that the model's settings add, and stop
    sequences that are one token. Special tokens are not in decoded text, where a search would miss them."""
    named = getattr(model.generation_config, "eos_token_id", None)
    listed = named if isinstance(named, list) else [named]
    known = tokenizer.get_added_vocab() if stops else {}
    stopping = [known.get(stop) for stop in stops]
    return sorted({int(token) for token in [tokenizer.eos_token_id, *listed, *stopping] if token is not None})


def stop_texts(tokenizer: Any, stops: Sequence[str]) -> list[str]:
    """The stop sequences that are not one token."""
    known = tokenizer.get_added_vocab() if stops else {}
    return [stop for stop in stops if stop and stop not in known]


def sampling(decoding: Decoding) -> dict[str, Any]:
    """As transformers names them. A temperature of 0 is greedy; a model's own settings are overruled."""
    if decoding.temperature <= 0:
        return dict(GREEDY)
    return {
        "do_sample": True,
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "top_k": decoding.top_k,
        "min_p": decoding.min_p or None,
    }


def pad_id(model: Any, tokenizer: Any) -> int:
    """Any id that the base has a vector for: what it stands for is masked."""
    rows = token_vectors.count(model)
    wanted = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    return next((int(token) for token in wanted if token is not None and 0 <= token < rows), 0)
