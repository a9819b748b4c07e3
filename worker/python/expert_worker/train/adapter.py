"""Builds the adapter with peft from the plan, initialised from the seed before any other random draw."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from expert_worker.adapter import KINDS
from expert_worker.base import quantized
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import AdaptedModules, Recipe, SoftPrompt
from expert_worker.train import modules
from expert_worker.train.fast.weights import read, readable
from expert_worker.train.random import ADAPTER, PROMPT, generator, seed_everything

# AdaLoRA's record of how many ranks a module has now.
_RANK_COUNT = ".ranknum."
# What it scales each rank by; 0 takes the rank away.
_RANK = ".lora_E."
_MAGNITUDE = ".lora_magnitude_vector."


def build(
    recipe: Recipe,
    planned: AdaptedModules | None,
    base: Any,
    tokenizer: Any,
    total_steps: int,
    events: Events,
) -> Any:
    """The base with a trainable adapter in fp32. `planned` are what the plan shows."""
    from peft import get_peft_model

    wanted = recipe.adapter
    kind = KINDS[wanted.kind]
    found = modules.find(base, wanted)
    names = {"target_modules": found.target, "feedforward_modules": found.feedforward}
    seed_everything(recipe.seed, ADAPTER)
    try:
        config = kind.config(wanted.model_copy(update=names), total_steps)
        if found.exclude:
            config.exclude_modules = set(found.exclude)
        model = get_peft_model(base, config)
    except (ValueError, TypeError, NotImplementedError) as error:  # peft's words for layers it cannot adapt.
        raise BadInput(
            f"The adapter does not fit the base {recipe.base.name}: {str(error).splitlines()[0]}",
            hint="Check target_modules against the base's layers.",
            code="adapter-does-not-fit",
        ) from error
    if kind.is_soft_prompt:
        _start_prompts(model, wanted.soft_prompts, tokenizer, recipe.seed)
    for name, parameter in model.named_parameters():
        if _RANK_COUNT in name:
            # peft marks it trainable when it moves it to a GPU; no gradient ever reaches it.
            parameter.requires_grad_(False)
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    quantized.prepare_adapted(model)
    _start_magnitudes(model)
    model.train()
    count = sum(parameter.numel() for parameter in trained(model).values())
    modules.check_count(planned.parameters if planned else None, count, recipe.base.name)
    _refuse_rows_of_zeros(model)
    _report(model, events)
    return model


def trained(model: Any) -> dict[str, torch.nn.Parameter]:
    """The trainable parameters by name, sorted."""
    return dict(sorted((name, p) for name, p in model.named_parameters() if p.requires_grad))


@torch.no_grad()
def _start_magnitudes(model: Any) -> None:
    """DoRA begins as the base: its magnitudes are the norms of the weight's rows. peft rounds them to the
    base's dtype, in bf16 by up to 0.4%, by which each row would be scaled before anything is learnt."""
    for module in model.modules():
        for magnitude in getattr(module, "lora_magnitude_vector", {}).values():
            base = module.get_base_layer()
            if readable(base):
                magnitude.weight.data = read(base, torch.float32).square().sum(1).sqrt()


def _refuse_rows_of_zeros(model: Any) -> None:
    """DoRA divides each row of a weight by its norm, wherever peft uses the adapter too: 0/0 is not a number.
    At the start the magnitudes are the norms."""
    for name, magnitude in trained(model).items():
        if _MAGNITUDE not in name:
            continue
        if rows := (magnitude.detach() == 0).flatten().nonzero().flatten().tolist():
            layer = name.partition(_MAGNITUDE)[0].removeprefix("base_model.model.")
            more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
            raise BadInput(
                f"Row {rows[0]}{more} of {layer}'s weight is all zeros, which DoRA cannot scale",
                hint="Leave the layer out of target_modules, or use adapter_type lora.",
                code="adapter-does-not-fit",
            )


def _start_prompts(model: Any, prompts: tuple[SoftPrompt, ...], tokenizer: Any, seed: int) -> None:
    words = _words(model)
    parts = [_start(prompt, words, tokenizer, seed, index) for index, prompt in enumerate(prompts)]
    encoder = model.prompt_encoder[model.active_adapter]
    encoder.embedding.weight.data = torch.cat(parts).to(encoder.embedding.weight.device)


def _words(model: Any) -> torch.Tensor:
    """The vector of each token as the layers get it: Gemma's table scales what is read from it."""
    table = model.get_input_embeddings()
    with torch.no_grad():
        words: torch.Tensor = table(torch.arange(table.weight.shape[0], device=table.weight.device))
    return words.float()


def _start(prompt: SoftPrompt, words: torch.Tensor, tokenizer: Any, seed: int, index: int) -> torch.Tensor:
    draw = generator(seed, PROMPT, index)
    if prompt.init == "text":
        ids = tokenizer(prompt.init_text or "", add_special_tokens=False)["input_ids"]
        if not ids:
            raise BadInput(f"The soft prompt {prompt.name} is to start from a text, and init_text is empty")
        chosen = (ids * math.ceil(prompt.tokens / len(ids)))[: prompt.tokens]
        return words[torch.tensor(chosen, device=words.device)].clone()
    if prompt.init == "vocab_sample":
        chosen = torch.randint(0, words.shape[0], (prompt.tokens,), generator=draw).tolist()
        return words[torch.tensor(chosen, device=words.device)].clone()
    noise = torch.randn((prompt.tokens, words.shape[1]), generator=draw)
    return noise.to(words.device) * words.std()


def _report(model: Any, events: Events) -> None:
    config = model.peft_config[model.active_adapter]
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    said: dict[str, Any] = {"type": str(config.peft_type.value), "trained_parameters": count}
    for name in (
        "r",
        "lora_alpha",
        "alpha",
        "lora_dropout",
        "use_dora",
        "use_rslora",
        "num_virtual_tokens",
        "target_r",
    ):
        value = getattr(config, name, None)
        if value is not None:
            said[name] = value
    for name in ("target_modules", "feedforward_modules"):
        value = getattr(config, name, None)
        if value:
            said[name] = sorted(value)
    events.applied("adapter", said, f"Training {count:,} adapter parameters ({said['type']})")


def extra_loss(model: Any) -> torch.Tensor | None:
    """AdaLoRA regularises its factors to stay orthogonal; no other kind adds to the loss."""
    config = model.peft_config[model.active_adapter]
    weight = getattr(config, "orth_reg_weight", 0.0)
    if not weight:
        return None
    terms = []
    for name, parameter in model.named_parameters():
        if "lora_A" in name or "lora_B" in name:
            square = parameter @ parameter.t() if "lora_A" in name else parameter.t() @ parameter
            identity = torch.eye(square.shape[0], device=square.device)
            terms.append(torch.linalg.norm(square - identity))
    total: torch.Tensor = weight * torch.stack(terms).mean()
    return total


def acts_after_step(model: Any) -> bool:
    return hasattr(model.base_model, "update_and_allocate")


def after_step(model: Any, step: int) -> None:
    """AdaLoRA moves ranks between modules, from gradients that are not cleared yet. There are none where no
    token of the step is learned, as in some rows that another tool tokenized."""
    if not acts_after_step(model):
        return
    if all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad):
        _allocate(model, step)
    else:
        after_skipped_step(model, step)


def _allocate(model: Any, step: int) -> None:
    model.base_model.update_and_allocate(step)
    name = model.active_adapter
    config = model.peft_config[name]
    if config.rank_pattern:
        # Its keys name the adapter until peft saves it, and peft loads them under no other name.
        kept = config.rank_pattern.items()
        config.rank_pattern = {module.removesuffix(f".{name}"): ranks for module, ranks in kept}


@contextmanager
def as_saved(model: Any) -> Iterator[None]:
    """The adapter that a save would write: without AdaLoRA's ranks that the last allocation took away. Until
    the next one the optimizer moves their values, and any of them may come back."""
    if not acts_after_step(model):
        yield
        return
    before = {name: value.detach().clone() for name, value in trained(model).items() if _RANK in name}
    drop_ranks(model)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, value in trained(model).items():
                if name in before:
                    value.copy_(before[name])


def drop_ranks(model: Any) -> None:
    """Those that the last allocation of AdaLoRA took away, if there was one."""
    if not acts_after_step(model):
        return
    pattern = model.peft_config[model.active_adapter].rank_pattern
    if pattern:
        model.base_model.rankallocator.mask_using_rank_pattern(model.base_model.model, pattern)


def after_skipped_step(model: Any, step: int) -> bool:
    """A step that is not finite, or learns no token, has no gradients to move ranks by. The last move needs
    none, only the averages of the steps before, and every later step expects its result. Whether it was made.
    """
    if not acts_after_step(model):
        return False
    config = model.peft_config[model.active_adapter]
    if step != config.total_step - config.tfinal:
        return False
    _allocate(model, step)
    return True
