"""What starts an exported model elsewhere: Ollama's Modelfile, and command lines."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expert_worker.plan import Decoding

_SYSTEM, _PROMPT = "\ue000", "\ue001"


def modelfile(
    model: str, adapter: str | None, template: str | None, decoding: Decoding, ends: list[str]
) -> str:
    """`ends` are the texts of tokens and stop sequences that end an answer."""
    lines = [f"FROM ./{model}"]
    if adapter is not None:
        lines.append(f"ADAPTER ./{adapter}")
    if template is not None:
        lines.append(f'TEMPLATE """{template}"""')
    settings: dict[str, float] = {"temperature": decoding.temperature, "num_predict": decoding.max_new_tokens}
    if decoding.temperature > 0:
        settings |= {"top_p": decoding.top_p, "top_k": decoding.top_k, "min_p": decoding.min_p}
    lines += [f"PARAMETER {name} {value:g}" for name, value in settings.items()]
    lines += [f"PARAMETER stop {_quoted(end)}" for end in ends]
    return "\n".join(lines) + "\n"


def go_template(tokenizer: Any, chat_template: str) -> str | None:
    """A question with and without a system message in Ollama's language, found by rendering both. None where
    the template does not show a message as it is."""
    plain = _render(tokenizer, chat_template, [{"role": "user", "content": _PROMPT}])
    asked = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _PROMPT}]
    with_system = _render(tokenizer, chat_template, asked)
    if plain is None or plain.count(_PROMPT) != 1:
        return None
    before, after = map(_literal, plain.split(_PROMPT))
    question = f"{before}{{{{ .Prompt }}}}{after}{{{{ .Response }}}}"
    if with_system is None or with_system.count(_SYSTEM) != 1 or with_system.count(_PROMPT) != 1:
        return question
    head, rest = with_system.split(_SYSTEM)
    if _PROMPT not in rest:
        return question
    middle, tail = rest.split(_PROMPT)
    system = f"{_literal(head)}{{{{ .System }}}}{_literal(middle)}"
    both = f"{system}{{{{ .Prompt }}}}{_literal(tail)}{{{{ .Response }}}}"
    return f"{{{{ if .System }}}}{both}{{{{ else }}}}{question}{{{{ end }}}}"


def gguf_commands(target: Path, name: str, model: str, adapter: str | None) -> tuple[str, ...]:
    """Stop texts go into each request to llama-server; Ollama has them from the Modelfile."""
    server = ["llama-server", "-m", str(target / model)]
    if adapter is not None:
        server += ["--lora", str(target / adapter)]
    return shlex.join(server), shlex.join(["ollama", "create", name, "-f", str(target / "Modelfile")])


def vllm_command(target: Path, name: str, base: str, config: Mapping[str, Any]) -> str | None:
    """None of an adapter that vLLM does not load."""
    if config["peft_type"] != "LORA" or config.get("use_dora"):
        return None
    rank = max([config["r"], *(config.get("rank_pattern") or {}).values()])
    lora = [
        "--enable-lora",
        "--lora-modules",
        f"{name}={target}",
        "--max-lora-rank",
        str(vllm_rank(rank)),
    ]
    return shlex.join(["vllm", "serve", base, *lora, "--chat-template", str(target / "chat_template.jinja")])


def vllm_rank(rank: int) -> int:
    """The smallest value of vLLM's --max-lora-rank that holds it."""
    return next((most for most in (8, 16, 32, 64, 128, 256, 320, 512) if rank <= most), rank)


def _render(tokenizer: Any, template: str, messages: list[Mapping[str, str]] | Any) -> str | None:
    try:
        found = tokenizer.apply_chat_template(
            messages, chat_template=template, add_generation_prompt=True, tokenize=False
        )
    except Exception:  # A template raises what it likes, such as where it has no place for a system message.
        return None
    return str(found)


def _literal(text: str) -> str:
    """Braces are Go's; a Modelfile ends a text at three quotes."""
    return text.replace("{{", '{{ "{{" }}').replace('"""', '{{ "\\"\\"\\"" }}')


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
