"""The experts to serve, as their `final/` folders describe them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from expert_worker.adapter import CONFIG, EXPERT, check_adapter
from expert_worker.base.embedded import HUB_ID
from expert_worker.errors import BadInput
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.rows import Message
from expert_worker.plan import Grammar, GrammarKind
from expert_worker.record_reader import read_json, read_record
from expert_worker.recorded import EvaluationResult
from expert_worker.results import ExpertRecord
from expert_worker.run_record import final
from expert_worker.run_record.expert import rope_scaling_of_run
from expert_worker.run_record.inference import CHAT_TEMPLATE, GENERATION, GRAMMAR_FILES, sha256
from expert_worker.run_scores import SCORES
from expert_worker.schema_grammar import OF_PROMPT

BASE = "base"
AUTO = "auto"
_LONGEST_BASE_ANSWER = 256


class Generation(BaseModel):
    """What `generation_config.json` says; other programs' settings in it are left to them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    max_new_tokens: int | None = None
    eos_token_id: int | list[int] | None = None
    stop_strings: tuple[str, ...] | None = None
    do_sample: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    @property
    def end_ids(self) -> tuple[int, ...]:
        ids = self.eos_token_id
        return () if ids is None else tuple(ids) if isinstance(ids, list) else (ids,)


@dataclass(frozen=True)
class Expert:
    name: str
    folder: Path
    record: ExpertRecord
    template: str
    generation: Generation
    adapter_config: dict[str, Any]
    grammar: Grammar | None = None
    # Of the run; empty where it has not been scored, and for an exported adapter.
    evaluation: EvaluationResult = field(default_factory=EvaluationResult)

    @property
    def base_examples(self) -> int:
        """In the prompt of the base when it got its score in `expert.json`; 0 where that is not known."""
        found, score = self.evaluation.base, self.record.score
        if score and score.base_examples is not None:
            return score.base_examples
        # A record of an earlier version: the run's last evaluation, if it is the one of this score.
        known = score and score.base
        if not (found and found.prompt and known) or (found.correct, found.total) != (
            known.correct,
            known.total,
        ):
            return 0
        return found.prompt.shots or 0

    @property
    def partly_measured(self) -> str | None:
        """What the run's scores are of, where there is none of all test rows."""
        found = self.evaluation
        if self.record.score is not None or found.adapter is None or found.other_adapter is not None:
            return None
        if found.other_rows == "few" and found.rows:
            return f"on {found.rows} row{'' if found.rows == 1 else 's'}"
        return {"few": "on fewer rows", "file": "on other rows"}.get(
            found.other_rows or "", "with other settings"
        )


@dataclass(frozen=True)
class Model:
    """A name that a request may ask for: an expert, or the base."""

    name: str
    expert: Expert | None
    # Place of the adapter in the engine's list; None is the base alone.
    adapter: int | None
    prompts: PromptMaker
    generation: Generation
    ends: tuple[int, ...]
    # A base without one only completes text.
    has_template: bool = True

    def asked(self, messages: Sequence[Message]) -> list[Message]:
        """As in training: with the system message of the training rows, unless the request has its own."""
        given = self.expert.record.system_message if self.expert else None
        if given is None or any(message["role"] == "system" for message in messages):
            return list(messages)
        return [{"role": "system", "content": given}, *messages]

    @property
    def grammar(self) -> Grammar | None:
        return self.expert.grammar if self.expert else None

    @property
    def stops(self) -> tuple[str, ...]:
        return self.generation.stop_strings or ()

    @property
    def soft_tokens(self) -> int:
        """Of a soft prompt: they have positions before those of the prompt."""
        return int(self.expert.adapter_config.get("num_virtual_tokens") or 0) if self.expert else 0

    @property
    def answer_tokens(self) -> int:
        return self.generation.max_new_tokens or _LONGEST_BASE_ANSWER


def read_experts(folders: Sequence[Path]) -> list[Expert]:
    """Of different names: the CLI refuses others."""
    experts = [_read(folder) for folder in folders]
    for expert in experts:
        if expert.name in (BASE, AUTO):
            raise BadInput(
                f"{expert.folder} is an expert named {expert.name!r}, which is the name of another model",
                hint="Rename the expert in its manifest and train it.",
                code="expert-name",
            )
    for expert in experts[1:]:
        _check_base(experts[0], expert)
    return experts


def models(experts: Sequence[Expert], tokenizer: Any, base: Path) -> dict[str, Model]:
    """By name, experts first."""
    found = {
        expert.name: Model(
            name=expert.name,
            expert=expert,
            adapter=place,
            prompts=PromptMaker(tokenizer, expert.template),
            generation=expert.generation,
            ends=expert.generation.end_ids,
        )
        for place, expert in enumerate(experts)
    }
    return {**found, BASE: _base_model(experts, tokenizer, base)}


def _base_model(experts: Sequence[Expert], tokenizer: Any, base: Path) -> Model:
    """With the template of the experts where they share one, as `generate` asks the base; else its own."""
    templates = {expert.template for expert in experts}
    own = getattr(tokenizer, "chat_template", None)
    template = templates.pop() if len(templates) == 1 else own
    settings = base / GENERATION
    generation = _generation(settings) if settings.is_file() else Generation()
    longest = max(expert.generation.max_new_tokens or 0 for expert in experts)
    ends = {*generation.end_ids, *(end for expert in experts for end in expert.generation.end_ids)}
    if tokenizer.eos_token_id is not None:
        ends.add(int(tokenizer.eos_token_id))
    return Model(
        name=BASE,
        expert=None,
        adapter=None,
        prompts=PromptMaker(tokenizer, template),
        generation=generation.model_copy(update={"max_new_tokens": longest or None}),
        ends=tuple(sorted(ends)),
        has_template=template is not None,
    )


def _read(folder: Path) -> Expert:
    check_adapter(folder)
    try:
        # Not strict: a list stands for a tuple.
        record = ExpertRecord.model_validate(_json(folder, EXPERT), strict=False)
    except ValidationError as error:
        raise _unreadable(folder / EXPERT, str(error.errors(include_url=False)[0]["msg"])) from None
    return Expert(
        name=record.name,
        folder=folder,
        record=_with_rope_scaling(record, folder),
        template=_text(folder, CHAT_TEMPLATE),
        generation=_generation(folder / GENERATION),
        adapter_config=_json(folder, CONFIG),
        grammar=_grammar(folder, record),
        evaluation=_evaluation(folder),
    )


def _evaluation(folder: Path) -> EvaluationResult:
    run = folder.resolve()
    document = read_json(run.parent / SCORES) if run.name == final.NAME else None
    return read_record(EvaluationResult, document)[0]


def _with_rope_scaling(record: ExpertRecord, folder: Path) -> ExpertRecord:
    if record.base.rope_scaling is not None:
        return record
    scaling = rope_scaling_of_run(folder, record.recipe_digest)
    if scaling is None:
        return record
    base = record.base.model_copy(update={"rope_scaling": scaling})
    return record.model_copy(update={"base": base})


def _grammar(folder: Path, record: ExpertRecord) -> Grammar | None:
    """As it was when the expert was scored."""
    if record.grammar is None:
        return None
    name = record.grammar.name
    kinds: dict[str, GrammarKind] = {file: kind for kind, file in GRAMMAR_FILES.items()}
    of_prompt = next((kind for kind in OF_PROMPT if kind == name), None)
    if of_prompt is not None:
        grammar = Grammar(kind=of_prompt, name=name, text=name)
    elif name in kinds:
        grammar = Grammar(kind=kinds[name], name=name, text=_text(folder, name))
    else:
        raise _unreadable(folder / EXPERT, f"{name!r} is not the name of a grammar")
    if sha256(grammar) != record.grammar.sha256:
        raise BadInput(
            f"{folder / name} is not the grammar that {EXPERT} names",
            hint="Change the grammar in the expert's own folder, and run `expert-cli evaluate`.",
            code="bad-expert",
        )
    return grammar


def _check_base(first: Expert, other: Expert) -> None:
    one, two = (expert.record.base for expert in (first, other))
    shared = {name for name in one.files if one.files[name] and two.files.get(name)}
    weights = {name for name in shared if not name.endswith(".json")}
    # Another version of transformers unpacks the embedded base and writes its own number beside the weights.
    if one.name == HUB_ID and weights and all(one.files[name] == two.files[name] for name in weights):
        shared = weights
    differing = sorted(name for name in shared if one.files[name] != two.files[name])
    if one.name != two.name or differing:
        about = f"{', '.join(differing)} differ" if one.name == two.name else f"{one.name} and {two.name}"
        raise BadInput(
            f"{first.name} and {other.name} were trained on different bases: {about}",
            hint="Serve the experts of one base together; --model chooses among the runs of each expert.",
            code="several-bases",
        )
    if one.rope_scaling != two.rope_scaling:
        raise BadInput(
            f"{first.name} and {other.name} were trained with different rope_scaling of {one.name}",
            hint="Serve them in two servers: one base in memory has one scaling.",
            code="several-bases",
        )


def _generation(path: Path) -> Generation:
    try:
        return Generation.model_validate(_json(path.parent, path.name))
    except ValidationError as error:
        raise _unreadable(path, str(error.errors(include_url=False)[0]["msg"])) from None


def _json(folder: Path, name: str) -> Any:
    try:
        return json.loads(_text(folder, name))
    except ValueError as error:
        raise _unreadable(folder / name, str(error)) from None


def _text(folder: Path, name: str) -> str:
    try:
        # Not in text mode, which changes line ends: a digest is of the file as it is.
        return (folder / name).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(folder / name, getattr(error, "strerror", None) or str(error)) from None


def _unreadable(path: Path, why: str) -> BadInput:
    return BadInput(
        f"Cannot read {path}: {why}",
        hint="Name a folder that `expert-cli train` or `export --adapter` of this version wrote.",
        code="bad-expert",
    )
