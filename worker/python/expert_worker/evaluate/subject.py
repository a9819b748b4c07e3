"""The evaluated model with its tokenizer, with an adapter that can be disabled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expert_worker.adapter import EXPERT, WEIGHTS, check_adapter
from expert_worker.base import load_base, load_tokenizer, locate
from expert_worker.base.adapter import load_adapter
from expert_worker.checkpoint import files
from expert_worker.evaluate.cached_scores import fingerprint
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.events import Events
from expert_worker.plan import Plan, Template
from expert_worker.run_record.expert import check_base_of
from expert_worker.train import memory, precision
from expert_worker.train.fast.eligible import obstacle_to_answers

_OWN_BASE = "Name the base that it was trained on with --model, or train again on this one."


@dataclass
class Subject:
    model: Any
    tokenizer: Any
    template: str | None
    has_adapter: bool
    # Distinguishes this base from another of the same name.
    base_mark: str = ""
    events: Events | None = None
    # Of the adapter's weights; None where they come from the training itself.
    adapter_sha256: str | None = None
    # The base has an expert merged in, and no adapter is on top.
    is_merged_expert: bool = False

    def is_of(self, folder: Path) -> bool:
        """Whether this folder still has the weights that were loaded: a training may have replaced them."""
        if self.adapter_sha256 is None:
            return True
        try:
            return files.sha256(folder / WEIGHTS) == self.adapter_sha256
        except OSError:
            return False

    @contextmanager
    def base_only(self) -> Iterator[None]:
        """Inside, the model answers as if it had no adapter."""
        if not self.has_adapter:
            yield
            return
        with self.model.disable_adapter():
            yield

    def release(self) -> None:
        """Frees the model's memory for another one."""
        self.model = None
        memory.release()

    def maker(self) -> PromptMaker:
        return PromptMaker(self.tokenizer, self.template, events=self.events)


def open_subject(plan: Plan, adapter: str | None, events: Events) -> Subject:
    """The plan's base, with the adapter on top where there is one."""
    precision.use_threads(plan.machine.threads.compute, events)
    folder = checked_adapter(adapter)
    if folder is not None:
        check_trained_on(plan, folder, events)
    base, paths = plan.recipe.base, plan.machine.paths
    model, tokenizer = load_base(base, plan.machine, events), load_tokenizer(base, paths, events)
    digest = None
    if folder is not None:
        events.stage("adapter", detail=str(folder))
        # Before they are loaded: weights replaced meanwhile have another digest.
        digest = files.sha256(folder / WEIGHTS)
        model = load_adapter(model, folder)
    model.eval()
    _note_path(model, events)
    source = locate(base, paths, events)
    mark = fingerprint(source, Path(paths.home))
    template = template_of(plan.recipe.template, tokenizer)
    is_merged = folder is None and (source / EXPERT).is_file()
    return Subject(model, tokenizer, template, folder is not None, mark, events, digest, is_merged)


def _note_path(model: Any, events: Events) -> None:
    reason = obstacle_to_answers(model)
    # On a GPU there is no other path that it could have taken.
    is_slower = reason is not None and model.device.type == "cpu"
    note = f"Answers by plain transformers + peft: {reason}" if is_slower else None
    events.applied("answers.path", "fast" if reason is None else "plain", note)


def checked_adapter(adapter: str | None) -> Path | None:
    if adapter is None:
        return None
    check_adapter(Path(adapter))
    return Path(adapter)


def check_trained_on(plan: Plan, adapter: Path, events: Events, hint: str = _OWN_BASE) -> None:
    """Before the base is loaded: on other weights of the same shapes an adapter answers, and scores."""
    paths = plan.machine.paths
    base = locate(plan.recipe.base, paths, events)
    check_base_of(adapter, base, events, hint, Path(paths.home))


def template_of(template: Template, tokenizer: Any) -> str:
    """The Jinja text that training rendered its rows with."""
    from expert_worker.pretokenize import template_text

    return template_text(template, tokenizer)
