"""The model card of an export: how its files are used, where they are not the adapter's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from expert_worker.export.modelfile import gguf_commands
from expert_worker.plan import Recipe
from expert_worker.run_record.card import DIGESTS, embedded_note, exported_card, is_hub_id, public_name
from expert_worker.run_record.digests import CARD
from expert_worker.run_record.expert import system_message_of
from expert_worker.run_record.inference import is_greedy, penalty_of

# A card may be published: it names no folder of this machine.
HERE = Path()
_MEASURED = (
    "the temperature, the length and the ends of an answer that the scores below were measured with, unless "
    "they name another length"
)


def replace_card(folder: Path, changed: Callable[[str], str | None]) -> None:
    """A card that somebody rewrote is left out: it says how to load an adapter that is not there."""
    card = folder / CARD
    if card.is_file():
        text = changed(card.read_text(encoding="utf-8"))
        card.unlink() if text is None else card.write_text(text, encoding="utf-8")


def write_gguf_card(folder: Path, recipe: Recipe, model: str, adapter: str | None) -> None:
    """`adapter` is None of a merged model."""
    greedy, penalty = is_greedy(folder), penalty_of(folder)
    commands = gguf_commands(HERE, recipe.expert, model, adapter, greedy=greedy, repetition_penalty=penalty)
    text = (
        f"In this folder, one of:\n\n```sh\n{chr(10).join(commands)}\n```\n\n"
        f"{_asked(folder, 'to llama-server; `Modelfile` has it for Ollama')}"
        f"`Modelfile` has the template, {_MEASURED}. llama-server reads the template from `{model}`; the "
        f"others, which `generation_config.json` has too, go into each request. "
        f"{_penalized(folder, '`Modelfile` and the line for llama-server set it')}{DIGESTS}"
    )
    replace_card(
        folder,
        lambda card: exported_card(card, public_name(recipe.base.name), "gguf", text, merged=adapter is None),
    )


def write_mlx_card(folder: Path, recipe: Recipe, command: Callable[[Path, str], str]) -> None:
    name = public_name(recipe.base.name)
    base = name if is_hub_id(name) else f"path/to/{name}"
    text = (
        f"In this folder:\n\n```sh\n{command(HERE, base)}\n```\n\n"
        f"{_asked(folder, 'to the server')}"
        "`chat_template.jinja` is the template that rendered the training rows. `generation_config.json` "
        f"has {_MEASURED}; they go into each request. "
        f"{_penalized(folder, 'it goes into each request')}{DIGESTS}{embedded_note(recipe)}"
    )
    replace_card(folder, lambda card: exported_card(card, name, "mlx", text, merged=False))


def _penalized(folder: Path, where: str) -> str:
    penalty = penalty_of(folder)
    if penalty == 1:
        return ""
    return (
        f"The scores were measured with the base's repetition penalty of {penalty:g}, for all tokens, also "
        f"those of the prompt: {where}. "
    )


def _asked(folder: Path, where: str) -> str:
    system = system_message_of(folder)
    if system is None:
        return ""
    message = json.dumps({"role": "system", "content": system}, ensure_ascii=False)
    told = f"All training rows begin with this message. It goes into each request {where}:"
    return f"{told}\n\n```json\n{message}\n```\n\n"
