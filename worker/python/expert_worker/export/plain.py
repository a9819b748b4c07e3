"""The adapter as it is, with the tokenizer and template that it needs, and nothing of the run."""

import shutil
from pathlib import Path

import torch

from expert_worker.adapter import CONFIG, WEIGHTS
from expert_worker.base import load_base, load_tokenizer
from expert_worker.base.adapter import load_adapter
from expert_worker.events import Events
from expert_worker.export.probe import demand_equal, difference, logits
from expert_worker.plan import Plan
from expert_worker.run_record.final import tokenizer_files

_BESIDE = ("README.md", "template.json")
_TOKENIZER = ("tokenizer_config.json", "tokenizer.json")


def fill_with_adapter(plan: Plan, events: Events, adapter: Path, folder: Path) -> float:
    events.stage("copy", detail=str(adapter))
    for name in (CONFIG, WEIGHTS):
        shutil.copyfile(adapter / name, folder / name)
    copy_companions(plan, events, adapter, folder)
    return _check(plan, events, adapter, folder)


def copy_companions(plan: Plan, events: Events, adapter: Path, folder: Path) -> None:
    """From `final/` as they are; a bare checkpoint has no tokenizer, so the base's is written."""
    for path in sorted(adapter.iterdir()):
        if path.is_file() and (path.name in _BESIDE or _is_tokenizer(path.name)):
            shutil.copyfile(path, folder / path.name)
    if not any((adapter / name).is_file() for name in _TOKENIZER):
        for name, content in tokenizer_files(load_tokenizer(plan, events)).items():
            (folder / name).write_bytes(content)


def _is_tokenizer(name: str) -> bool:
    known = ("tokenizer", "special_tokens", "added_tokens", "chat_template", "vocab", "merges")
    return name.startswith(known) and not name.endswith(".partial")


def _check(plan: Plan, events: Events, adapter: Path, folder: Path) -> float:
    """Plain peft must load the copy, and hear from it what the original says."""
    base = load_base(plan, events)
    events.stage("compare logits", quiet_budget=300.0)
    model = load_adapter(base, adapter)
    original = logits(model)
    model.load_adapter(str(folder), "exported")
    model.set_adapter("exported")
    found = difference(original, logits(model.eval()))
    demand_equal(found, torch.float32, "The copy")
    return found
