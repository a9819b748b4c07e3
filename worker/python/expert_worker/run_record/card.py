"""The model card: what this adapter is, how to load it, what it was trained on and how well it did."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from expert_worker.adapter import KINDS
from expert_worker.plan import DurationEpochs, Recipe


@dataclass(frozen=True)
class Outcome:
    """What training came to. Nothing in it may differ between two runs of one recipe."""

    steps: int
    tokens: int
    supervised_tokens: int
    train_loss: float
    eval_loss: float | None = None
    best_step: int | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    """The row ledger: read, used, truncated, dropped."""
    modules: tuple[str, ...] = ()
    """Names of the layers that got an adapter."""


def model_card(recipe: Recipe, outcome: Outcome, recipe_digest: str) -> str:
    sections = [
        _front_matter(recipe),
        f"# {recipe.expert}",
        _summary(recipe),
        "## Use",
        _usage(recipe),
        "## Training",
        _table(_training(recipe, outcome)),
        "## Data",
        _table(_data(recipe, outcome)),
        "## Results",
        _table(_results(outcome)),
        f"Recipe `{recipe_digest}`.",
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(recipe: Recipe) -> str:
    lines = [
        "---",
        f"base_model: {json.dumps(recipe.base.name)}",
        "library_name: peft",
        "pipeline_tag: text-generation",
        "tags:",
        f"- {json.dumps('base_model:adapter:' + recipe.base.name)}",
        f"- {recipe.adapter.kind}",
        "---",
    ]
    return "\n".join(lines)


def _summary(recipe: Recipe) -> str:
    return f"A {KINDS[recipe.adapter.kind].title} adapter for `{recipe.base.name}`, trained by expert-cli."


def _usage(recipe: Recipe) -> str:
    base = json.dumps(recipe.base.name)
    return (
        "```python\n"
        "from peft import PeftModel\n"
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f"base = AutoModelForCausalLM.from_pretrained({base})\n"
        'model = PeftModel.from_pretrained(base, "path/to/this/folder")\n'
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n'
        "```\n\n"
        f"Prompts were rendered with the `{recipe.template.kind}` template; `template.json` holds it."
    )


def _training(recipe: Recipe, outcome: Outcome) -> Iterator[tuple[str, str]]:
    adapter, optimizer, batch = recipe.adapter, recipe.optimizer, recipe.batch
    yield "Adapter", adapter.kind
    if adapter.rank is not None:
        yield "Rank, alpha", f"{adapter.rank}, {adapter.alpha:g}"
    yield "Dropout", f"{adapter.dropout:g}"
    yield "Modules", ", ".join(outcome.modules or adapter.target_modules) or "prompt only"
    yield "Base quantization", recipe.base.quantization
    yield "Optimizer", f"{optimizer.name}, learning rate {optimizer.learning_rate:g}"
    yield "Schedule", recipe.schedule.kind
    yield "Rows per step", f"{batch.rows_per_step} of up to {batch.max_seq_length} tokens"
    yield "Packing", "yes" if batch.packing else "no"
    yield "Duration", _duration(recipe)
    yield "Steps", f"{outcome.steps:,}"
    yield "Tokens", f"{outcome.tokens:,}, of them {outcome.supervised_tokens:,} supervised"
    yield "Seed", str(recipe.seed)


def _duration(recipe: Recipe) -> str:
    duration = recipe.schedule.duration
    unit = "epochs" if isinstance(duration, DurationEpochs) else "steps"
    return f"{duration.value:g} {unit}"


def _data(recipe: Recipe, outcome: Outcome) -> Iterator[tuple[str, str]]:
    for source in recipe.data.train:
        yield "Training", f"`{source.name}`"
    for source in recipe.data.validation:
        yield "Validation", f"`{source.name}`"
    yield "Trained on", recipe.data.train_on
    for what, count in sorted(outcome.rows.items()):
        yield f"Rows {what}".replace("_", " "), f"{count:,}"


def _results(outcome: Outcome) -> Iterator[tuple[str, str]]:
    yield "Training loss", f"{outcome.train_loss:.6g}"
    if outcome.eval_loss is not None:
        yield "Validation loss", f"{outcome.eval_loss:.6g}"
    if outcome.best_step is not None:
        yield "Taken from step", f"{outcome.best_step:,}"
    for name, value in sorted(outcome.scores.items()):
        yield name.replace("_", " "), f"{value:.6g}"


def _table(rows: Iterator[tuple[str, str]]) -> str:
    lines = [f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows]
    return "\n".join(["| | |", "| --- | --- |", *lines])
