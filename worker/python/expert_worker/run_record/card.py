"""The model card: what this adapter is, how to load it, what it was trained on and how well it did."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from expert_worker.adapter import KINDS
from expert_worker.base import embedded
from expert_worker.base.rope import rope_settings
from expert_worker.checkpoint import files
from expert_worker.events.models import ACCURACY
from expert_worker.plan import DurationEpochs, Recipe, RopeScaling
from expert_worker.results import EvaluationResult, ExpertGrammar, Score, SplitStatistics, TestScores
from expert_worker.row_counts import in_words
from expert_worker.run_record.digests import CARD, GRAMMARS
from expert_worker.run_record.licenses import card_lines

# What `evaluate` rewrites; the rest of a card is left as people edited it.
_SCORES = ("<!-- scores -->", "<!-- /scores -->")
_NOT_SCORED = "Not scored yet."


@dataclass(frozen=True)
class Outcome:
    """What training came to. Nothing in it may differ between two runs of one recipe."""

    steps: int
    tokens: int
    supervised_tokens: int
    train_loss: float
    eval_loss: float | None = None
    best_step: int | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    """The row ledger of the training rows: read, used, truncated, dropped."""
    held_out: SplitStatistics | None = None
    """What the validation rows are like."""
    modules: tuple[str, ...] = ()
    """Names of the layers that got an adapter."""
    tokenized: str | None = None
    """The folder of the rows where another tool tokenized them, not those of the recipe's data."""


def model_card(
    recipe: Recipe,
    outcome: Outcome,
    recipe_digest: str,
    license_name: str | None = None,
    system_message: str | None = None,
) -> str:
    """`system_message` is the one that all training rows begin with."""
    sections = [
        _front_matter(recipe, license_name),
        f"# {recipe.expert}",
        _summary(recipe),
        "## Use",
        _usage(recipe, system_message),
        "## Training",
        _table(_training(recipe, outcome)),
        "## Data",
        _table(_data(recipe, outcome)),
        "## Results",
        _table(_results(outcome)),
        _between_marks(_NOT_SCORED),
        f"Recipe `{recipe_digest}`.",
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(recipe: Recipe, license_name: str | None) -> str:
    base = public_name(recipe.base.name)
    lines = [
        "---",
        f"base_model: {json.dumps(base)}",
        "library_name: peft",
        "pipeline_tag: text-generation",
        "tags:",
        f"- {json.dumps('base_model:adapter:' + base)}",
        f"- {recipe.adapter.kind}",
        *(card_lines(license_name) if license_name else []),
        "---",
    ]
    return "\n".join(lines)


def _summary(recipe: Recipe) -> str:
    title, base = KINDS[recipe.adapter.kind].title, public_name(recipe.base.name)
    return f"{title} adapter for `{base}`, trained by expert-cli."


def public_name(base: str) -> str:
    """As others can load it: the Hub id where there is one, else the name of the folder."""
    return embedded.HUB_ID if base == embedded.NAME else base


def is_hub_id(name: str) -> bool:
    return len([part for part in name.split("/") if part]) == 2


def _usage(recipe: Recipe, system_message: str | None) -> str:
    name = public_name(recipe.base.name)
    base = json.dumps(name if is_hub_id(name) else f"path/to/{name}")
    beside = "" if is_hub_id(name) else "  # the folder of the base"
    imports = ["AutoModelForCausalLM", "AutoTokenizer", "GenerationConfig"]
    load = f"base = AutoModelForCausalLM.from_pretrained({base}){beside}\n"
    if (scaling := recipe.base.rope_scaling) is not None:
        imports.insert(0, "AutoConfig")
        load = f"base = AutoModelForCausalLM.from_pretrained({base}, config=config)\n"
        load = _scaled(base, beside, scaling) + load
    return (
        "```python\n"
        "from peft import PeftModel\n"
        f"from transformers import {', '.join(imports)}\n\n"
        f"{load}"
        'model = PeftModel.from_pretrained(base, "path/to/this/folder")\n'
        f"{_LOADING}messages = {_messages(system_message)}\n{_ASKING}"
        "```\n\n"
        f"{_FILES}"
        f"{embedded_note(recipe)}"
    )


def _scaled(base: str, beside: str, scaling: RopeScaling) -> str:
    """Lines that give plain transformers the rotary settings of the training."""
    settings = "".join(
        f"    {json.dumps(key)}: {json.dumps(it)},\n" for key, it in rope_settings(scaling).items()
    )
    # As `apply_rope_scaling` has it: the base's length is the one of its configuration, unless it names one.
    length = 'rope.setdefault("original_max_position_embeddings", text.max_position_embeddings)\n'
    given = scaling.kind == "linear" or scaling.original_max_position_embeddings is not None
    shortened = 'text.max_position_embeddings = rope["original_max_position_embeddings"]\n'
    return (
        f"config = AutoConfig.from_pretrained({base}){beside}\n"
        "text = config.get_text_config(decoder=True)\n"
        'rope = text.rope_parameters.get("full_attention", text.rope_parameters)\n'
        f"rope |= {{\n{settings}}}\n"
        f"{'' if given else length}"
        f"{shortened if scaling.kind == 'dynamic' else ''}"
    )


def _messages(system_message: str | None) -> str:
    asked = '{"role": "user", "content": "Your question"}'
    if system_message is None:
        return f"[{asked}]"
    content = json.dumps(system_message, ensure_ascii=False)
    return f'[\n    {{"role": "system", "content": {content}}},\n    {asked},\n]'


_LOADING = """tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")
settings = GenerationConfig.from_pretrained("path/to/this/folder")

"""
_ASKING = """inputs = tokenizer.apply_chat_template(
    messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
)
answer = model.generate(**inputs, generation_config=settings, tokenizer=tokenizer)
print(tokenizer.decode(answer[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))
"""
DIGESTS = "`expert.json` has the digests of base, data, recipe and adapter."
_FILES = (
    "`chat_template.jinja` is the template that rendered the training rows. `generation_config.json` has the "
    "temperature, the length and the ends of an answer that the scores below were measured with, unless they "
    "name another length; vLLM reads it, beside an adapter with `--generation-config path/to/this/folder`, "
    "except for `do_sample` and `stop_strings`: where `do_sample` is false the temperature is 0, which goes "
    f"into each request, as the stop texts do as `stop`. {DIGESTS}"
)


def merged_card(card: str, base: str, system_message: str | None) -> str | None:
    """The card of the merged model; None where somebody changed the parts that differ."""
    code = (
        "```python\n"
        "from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig\n\n"
        'model = AutoModelForCausalLM.from_pretrained("path/to/this/folder")\n'
        f"{_LOADING}messages = {_messages(system_message)}\n{_ASKING}"
        "```\n\n"
        f"{_FILES}"
    )
    return exported_card(card, base, "transformers", code, merged=True)


def exported_card(card: str, base: str, library: str, use: str, *, merged: bool) -> str | None:
    """The card of an export that peft does not load; None where somebody changed the parts that differ."""
    before, heading, rest = card.partition("## Use\n")
    _, training, after = rest.partition("## Training\n")
    head = "library_name: peft\n"
    if not heading or not training or head not in before:
        return None
    relation = "merge" if merged else "adapter"
    before = before.replace(head, f"library_name: {library}\nbase_model_relation: {relation}\n", 1)
    if merged:
        before = before.replace(f"- {json.dumps('base_model:adapter:' + base)}\n", "", 1)
        before = before.replace(" adapter for `", " adapter merged into `", 1)
    return f"{before}{heading}\n{use}\n\n{training}{after}"


def with_base_license(card: str, name: str | None, file: str | None) -> str:
    """For a folder that holds the base's weights too; the expert's licence is in the front matter."""
    words = [*([f"is `{name}`"] if name else []), *([f"is in `{file}`"] if file else [])]
    if not words:
        return card
    note = f"This folder holds weights of the base, whose licence {' and '.join(words)}."
    return card.replace("## Use\n", f"{note}\n\n## Use\n", 1)


def embedded_note(recipe: Recipe) -> str:
    if recipe.base.name != embedded.NAME:
        return ""
    folder = f"bases/{embedded.NAME}"
    return (
        "\n\nIt was trained and scored on the 4-bit copy of this base that comes with expert-cli, unpacked "
        f"into `{folder}` of expert-cli's home folder (`~/.cache/expert-cli` on Linux, or `EXPERT_HOME`). "
        f"With that folder in place of `{embedded.HUB_ID}` the answers are the same; with the Hub's weights "
        "they may differ a little."
    )


def _training(recipe: Recipe, outcome: Outcome) -> Iterator[tuple[str, str]]:
    adapter, optimizer, batch = recipe.adapter, recipe.optimizer, recipe.batch
    yield "Adapter", adapter.kind
    if adapter.rank is not None:
        yield "Rank, alpha", f"{adapter.rank}, {adapter.alpha:g}"
    if adapter.initial is not None:
        yield "Started from", f"the adapter in `{adapter.initial}`"
    yield "Dropout", f"{adapter.dropout:g}"
    yield "Modules", ", ".join(outcome.modules or adapter.target_modules) or "prompt only"
    yield "Base quantization", recipe.base.quantization
    yield "Optimizer", f"{optimizer.name}, learning rate {optimizer.learning_rate:g}"
    yield "Schedule", recipe.schedule.kind
    yield "Rows per step", f"{batch.rows_per_step} of up to {batch.max_seq_length} tokens"
    yield "Packing", "yes" if batch.packing else "no"
    if isinstance(recipe.schedule.duration, DurationEpochs):
        yield "Epochs", f"{recipe.schedule.duration.value:g}"
    yield "Steps", f"{outcome.steps:,}"
    yield "Tokens", f"{outcome.tokens:,}, of them {outcome.supervised_tokens:,} supervised"
    yield "Seed", str(recipe.seed)


def _data(recipe: Recipe, outcome: Outcome) -> Iterator[tuple[str, str]]:
    if outcome.tokenized is not None:
        yield "Training", f"`{outcome.tokenized}`, tokenized by another tool"
    else:
        for source in recipe.data.train:
            yield "Training", f"`{source.name}`"
        for source in recipe.data.validation:
            yield "Validation", f"`{source.name}`"
        yield "Trained on", recipe.data.train_on
    for words, count in in_words(outcome.rows):
        yield words.capitalize(), f"{count:,}"
    if (held_out := outcome.held_out) is not None and held_out.documents:
        tokens = held_out.tokens + held_out.shared_tokens
        scored = f"{held_out.supervised_tokens:,} of them scored"
        yield "Validation documents", f"{held_out.documents:,}, with {tokens:,} tokens, {scored}"


def _results(outcome: Outcome) -> Iterator[tuple[str, str]]:
    yield "Training loss", f"{outcome.train_loss:.6g}"
    if outcome.eval_loss is not None:
        yield "Validation loss", f"{outcome.eval_loss:.6g}"
    if outcome.best_step is not None:
        yield "Taken from step", f"{outcome.best_step:,}"


def _table(rows: Iterator[tuple[str, str]]) -> str:
    lines = [f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def add_scores(
    folder: Path,
    result: EvaluationResult,
    whole: Mapping[str, int] | None = None,
    grammar: ExpertGrammar | None = None,
    length: int | None = None,
) -> None:
    """Into the card of this adapter; a card from which somebody removed the marks is left as it is. `whole`
    has the number of rows of each test set, the main one's without a name. `length` is that of the scored
    answers in tokens, where `generation_config.json` has another one."""
    path = folder / CARD
    if not path.is_file():
        return
    card = path.read_text(encoding="utf-8", errors="surrogateescape")
    start, end = (card.find(mark) for mark in _SCORES)
    if 0 <= start < end:
        text = _scores(result, whole or {})
        if length is not None:
            text = f"{text}\n\nThe scored answers had up to {length:,} tokens (`max_new_tokens`)."
        if grammar is not None:
            text = f"{text}\n\n{in_other_programs(grammar.name)}"
        changed = card[:start] + _between_marks(text) + card[end + len(_SCORES[1]) :]
        files.replace(path, changed.encode("utf-8", errors="surrogateescape"))


def in_other_programs(grammar: str) -> str:
    """What the scores depend on, besides the files that every program reads."""
    except_for = f" unless they are given the file `{grammar}`" if grammar in GRAMMARS else ""
    return (
        f"The grammar `{grammar}` constrains every answer of expert-cli's `evaluate`, `generate` and "
        f"`serve`. Other programs do not apply it{except_for}, and may score lower."
    )


def _between_marks(text: str) -> str:
    return f"{_SCORES[0]}\n{text}\n{_SCORES[1]}"


def _scores(result: EvaluationResult, whole: Mapping[str, int]) -> str:
    tables = [_score_table(result, "test rows", result.scorer, whole.get(""))]
    for name, found in result.test_sets.items():
        what = f"rows of the further test set `{name}`"
        tables.append(_score_table(found, what, result.scorer, whole.get(name)))
    return "\n\n".join(tables)


def _examples(score: Score) -> str:
    """A model whose prompt showed examples did not answer the bare question."""
    shots = score.prompt.shots if score.prompt is not None else 0
    examples = "1 example" if shots == 1 else f"{shots} examples"
    return f", {examples} in its prompt" if shots else ""


def _score_table(
    result: EvaluationResult | TestScores, what: str, scorer: str | None, whole: int | None
) -> str:
    count = f"{result.rows:,}" if whole in (None, result.rows) else f"{result.rows:,} of {whole:,}"
    rows = [
        f"| {who}{_examples(score)} | {score.accuracy:.1%} | {score.low:.1%} to {score.high:.1%} |"
        for who, score in (("base", result.base), ("adapter", result.adapter))
        if isinstance(score, Score)
    ]
    head = [f"| | {result.measure or ACCURACY} | 95% interval |", "| --- | --- | --- |"]
    return "\n".join([f"{count} {what}, scored by `{scorer}`:", "", *head, *rows])
