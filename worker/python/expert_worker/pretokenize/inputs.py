"""Everything that decides a cache's content, gathered in one place and named by one key."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from expert_worker._native import ENCODER_VERSION, Recipe
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import Machine, Plan, Source
from expert_worker.pretokenize.locate import tokenizer_folder
from expert_worker.pretokenize.read_files import before_reading, perhaps_changed
from expert_worker.pretokenize.record import FORMAT
from expert_worker.pretokenize.sources import source_digest
from expert_worker.pretokenize.template import template_damaged, template_for
from expert_worker.pretokenize.vocabulary import Vocabulary, read_vocabulary
from expert_worker.results import ReadFile

DIGEST_BUDGET = 600.0


@dataclass(frozen=True)
class Inputs:
    plan: Plan
    vocabulary: Vocabulary
    template: str
    # The inputs of the key, as recorded in cache.json.
    parts: dict[str, Any]
    # As they were before anything was read of them.
    files: tuple[ReadFile, ...] = ()

    @property
    def key(self) -> str:
        text = json.dumps(self.parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def gather(plan: Plan, events: Events) -> Inputs:
    vocabulary = read_vocabulary(tokenizer_folder(plan.recipe.base, plan.machine.paths, events))
    template = template_for(plan.recipe, vocabulary, events)
    events.stage("digest data", DIGEST_BUDGET)
    files = before_reading(plan)
    data, batch = plan.recipe.data, plan.recipe.batch
    parts = {
        "format": FORMAT,
        "encoder": ENCODER_VERSION,
        "tokenizer": vocabulary.digest,
        "template": hashlib.sha256(template.encode()).hexdigest(),
        "train": [_source(source, plan.machine) for source in data.train],
        # Without their shares: a cache that had taken shares of validation rows has another key.
        "validation": [{**_source(source, plan.machine), "weight": 1.0} for source in data.validation],
        "validation_split": data.validation_split,
        "seed": plan.recipe.seed,
        "field_mapping": data.field_mapping,
        "train_on": data.train_on,
        "on_bad_row": data.on_bad_row,
        "overlong": data.overlong,
        "text_dialogue": data.text_dialogue,
        "deduplicate": "near" if data.drop_near_copies else data.deduplicate,
        "min_length": data.min_length,
        "max_length": data.max_length,
        "max_seq_length": batch.max_seq_length,
        "packing": batch.packing,
    }
    if batch.share_prefixes:
        parts["share_prefixes"] = True
    if data.stopping_strategy != "first_exhausted":
        parts["stopping_strategy"] = data.stopping_strategy
    counts = [len(files) for files in by_task(data.train)]
    if any(count > 1 for count in counts):
        parts["files_by_task"] = counts
    return Inputs(plan, vocabulary, template, parts, files)


def refuse_changed(inputs: Inputs, events: Events) -> None:
    """After the rows are read: the key names the data as it was before."""
    perhaps = perhaps_changed(inputs.files, inputs.plan)
    if not perhaps:
        return
    events.stage("digest data", DIGEST_BUDGET)
    known = {one["name"]: one["digest"] for one in [*inputs.parts["train"], *inputs.parts["validation"]]}
    for source in perhaps:
        if _source(source, inputs.plan.machine)["digest"] != known[source.name]:
            raise BadInput(
                f"{source.name} has changed while its rows were prepared",
                hint="Repeat the command: it reads the data as it is now.",
                code="data-changed",
            )


def by_task(sources: Sequence[Source]) -> list[list[Source]]:
    """The files of each task of a mixture, which have its share together. A file without a task is alone."""
    tasks = itertools.groupby(enumerate(sources), key=lambda at: at[1].task or at[0])
    return [[source for _, source in files] for _, files in tasks]


def _source(source: Source, machine: Machine) -> dict[str, Any]:
    return {
        "name": source.name,
        "format": source.format,
        "weight": source.weight,
        "digest": source_digest(source, machine.paths.data, machine.threads.pretokenize),
    }


def recipe_for(
    inputs: Inputs, prefix: tuple[int, ...], suffix: tuple[int, ...], *, interpret: bool
) -> Recipe:
    data, batch = inputs.plan.recipe.data, inputs.plan.recipe.batch
    try:
        return Recipe(
            template=inputs.template,
            specials=inputs.vocabulary.specials,
            mapping=data.field_mapping,
            parse_dialogue=data.text_dialogue == "parse",
            train_on=data.train_on,
            eos=list(inputs.vocabulary.eos),
            stops=list(inputs.vocabulary.stops),
            prefix=list(prefix),
            suffix=list(suffix),
            max_seq_length=batch.max_seq_length,
            overlong=data.overlong,
            deduplicate=data.deduplicate,
            min_length=data.min_length,
            max_length=data.max_length,
            interpret=interpret,
        )
    except ValueError as error:
        raise template_damaged(error) from None
