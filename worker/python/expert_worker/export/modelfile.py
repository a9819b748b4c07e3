"""What starts an exported model elsewhere: Ollama's Modelfile, and command lines."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expert_worker.errors import BadInput
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.plan import Decoding

_SYSTEM, _PROMPT, _ANSWER, _NEXT = "\ue000", "\ue001", "\ue002", "\ue003"
# Ollama's own default is too short for a prompt of several thousand tokens, and a base's whole length may not
# fit into memory.
_CONTEXT = 4096
# Of a request to llama-server. Some versions take -1, its own name for all of them, as none.
_ALL_TOKENS = 131_072


def modelfile(
    model: str,
    adapter: str | None,
    template: str | None,
    decoding: Decoding,
    ends: list[str],
    *,
    system_message: str | None,
    repetition_penalty: float,
    context: int,
) -> str:
    """`ends` are the texts of tokens and stop sequences that end an answer, without those that
    `has_stop_form` refuses; `system_message` is the one that all training rows begin with."""
    lines = [f"FROM ./{model}"]
    if adapter is not None:
        lines.append(f"ADAPTER ./{adapter}")
    if template is not None:
        lines.append(f'TEMPLATE """{template}"""')
    # Three quotes end a text there, and cannot be in one.
    if system_message is not None and '"""' not in f'{system_message}"' and ".System" in (template or ""):
        lines.append(f'SYSTEM """{system_message}"""')
    settings: dict[str, float] = {
        "temperature": decoding.temperature,
        "num_predict": decoding.max_new_tokens,
        "num_ctx": context,
        # Ollama's default is 1.1, which punishes every bracket and comma of JSON or SQL.
        "repeat_penalty": repetition_penalty,
    }
    if repetition_penalty != 1:
        settings["repeat_last_n"] = -1  # All tokens, as transformers does.
    if decoding.temperature > 0:
        settings |= {"top_p": decoding.top_p, "top_k": decoding.top_k, "min_p": decoding.min_p}
    lines += [f"PARAMETER {name} {value}" for name, value in settings.items()]
    lines += [f"PARAMETER stop {_quoted(end)}" for end in ends]
    return "\n".join(lines) + "\n"


def has_stop_form(text: str) -> bool:
    """Three quotes end a text there."""
    return '"""' not in text


def context_length(longest_row: int, max_new_tokens: int, of_base: int | None) -> int:
    """Room for the longest row that was trained on and an answer, up to the positions of the base."""
    wanted = max(_CONTEXT, longest_row + max_new_tokens)
    return min(wanted, of_base) if of_base else wanted


def go_template(tokenizer: Any, chat_template: str) -> str | None:
    """The chat template in Ollama's language, found by rendering conversations. None where it does not show a
    message as it is."""
    asked = {"role": "user", "content": _PROMPT}
    question = _pieces(tokenizer, chat_template, [asked])
    if question is None:
        return None
    before, after = question
    # Some templates have no place for a system message.
    systemic = _pieces(tokenizer, chat_template, [{"role": "system", "content": _SYSTEM}, asked])
    if systemic is not None:
        head, middle, _ = systemic
        before = f"{{{{ if .System }}}}{head}{{{{ .System }}}}{middle}{{{{ else }}}}{before}{{{{ end }}}}"
    answered = [asked, {"role": "assistant", "content": _ANSWER}, {"role": "user", "content": _NEXT}]
    turns = _pieces(tokenizer, chat_template, answered)
    if turns is None:
        return f"{before}{{{{ .Prompt }}}}{after}{{{{ .Response }}}}"
    # A template with `.Prompt` is rendered once for each turn: a base's default system message would be at
    # every turn, and the end of an answer at none.
    _, answer, close, _ = turns
    return (
        f'{before}{{{{ $role := "" }}}}{{{{ range .Messages }}}}'
        f'{{{{ if eq .Role "user" }}}}{{{{ if eq $role "assistant" }}}}{close}{{{{ end }}}}'
        '{{ .Content }}{{ $role = "user" }}'
        f'{{{{ else if eq .Role "assistant" }}}}{answer}{{{{ .Content }}}}{{{{ $role = "assistant" }}}}'
        f'{{{{ end }}}}{{{{ end }}}}{{{{ if ne $role "assistant" }}}}{after}{{{{ end }}}}'
    )


def _pieces(tokenizer: Any, template: str, messages: list[dict[str, str]]) -> list[str] | None:
    """What the template writes around the messages. None where it has no place for one of them."""
    rest, found = _render(tokenizer, template, messages), list[str]()
    for message in messages:
        if rest is None or rest.count(message["content"]) != 1:
            return None
        before, _, rest = rest.partition(message["content"])
        found.append(_literal(before))
    return None if rest is None else [*found, _literal(rest)]


def gguf_commands(
    target: Path, name: str, model: str, adapter: str | None, *, greedy: bool, repetition_penalty: float
) -> tuple[str, ...]:
    """Stop texts go into each request to llama-server; Ollama has them from the Modelfile."""
    server = ["llama-server", "-m", str(target / model)]
    if adapter is not None:
        server += ["--lora", str(target / adapter)]
    if greedy:
        server += ["--temp", "0"]
    if repetition_penalty != 1:
        server += ["--repeat-penalty", str(repetition_penalty), "--repeat-last-n", str(_ALL_TOKENS)]
    return shlex.join(server), shlex.join(["ollama", "create", name, "-f", str(target / "Modelfile")])


def vllm_command(
    target: Path,
    name: str,
    base: str,
    config: Mapping[str, Any],
    rope: Mapping[str, Any] | None = None,
    *,
    greedy: bool,
) -> str | None:
    """None of an adapter that vLLM does not load. `rope` are settings of the base's configuration."""
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
    override = [] if rope is None else ["--hf-overrides", json.dumps(dict(rope))]
    template = ["--chat-template", str(target / "chat_template.jinja")]
    # Else it reads the settings of the base.
    settings = ["--generation-config", str(target), *_vllm_temperature(greedy)]
    return shlex.join(["vllm", "serve", base, *lora, *override, *template, *settings])


def vllm_merged_command(target: Path, name: str, *, greedy: bool) -> str:
    named = ["--served-model-name", name]
    return shlex.join(["vllm", "serve", str(target), *named, *_vllm_temperature(greedy)])


def _vllm_temperature(greedy: bool) -> list[str]:
    """vLLM does not read `do_sample`, and samples at 1 where no temperature is named."""
    return ["--override-generation-config", json.dumps({"temperature": 0.0})] if greedy else []


def vllm_rank(rank: int) -> int:
    """The smallest value of vLLM's --max-lora-rank that holds it."""
    return next((most for most in (8, 16, 32, 64, 128, 256, 320, 512) if rank <= most), rank)


def _render(tokenizer: Any, template: str, messages: list[dict[str, str]]) -> str | None:
    """As training rendered its rows: a template that prints the date prints the same one on any day."""
    try:
        return PromptMaker(tokenizer, template).text(messages)
    except BadInput:  # Where it has no place for a system message, for instance.
        return None


def _literal(text: str) -> str:
    """Braces are Go's; a Modelfile ends a text at three quotes."""
    return text.replace("{{", '{{ "{{" }}').replace('"""', '{{ "\\"\\"\\"" }}')


def _quoted(text: str) -> str:
    """Ollama takes the outer quotes off and knows no escapes."""
    return f'"""{text}"""' if '"' in text else f'"{text}"'
