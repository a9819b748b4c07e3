"""`export --gguf`: an adapter beside its base, or the merged model, with a Modelfile."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from expert_worker.base import load_base, load_tokenizer, locate
from expert_worker.base.adapter import load_adapter, read_config
from expert_worker.evaluate.decode import end_ids, repetition_penalty, stop_texts
from expert_worker.evaluate.rows import Message, rows_of, spread
from expert_worker.events import Events
from expert_worker.export import folders, llama_cpp
from expert_worker.export.cards import write_gguf_card
from expert_worker.export.forms import demand_mergeable
from expert_worker.export.gguf_files import (
    check_head,
    check_kind,
    check_rope_scaling,
    model_sizes,
    tensor_type,
    write_adapter,
    write_model,
)
from expert_worker.export.licenses import copy_base_license
from expert_worker.export.modelfile import context_length, go_template, has_stop_form, modelfile
from expert_worker.export.placement import where_it_fits
from expert_worker.plan import GgufQuantization, Machine, Recipe
from expert_worker.pretokenize.broken_rows import BrokenRows
from expert_worker.results import AnswerCheck
from expert_worker.run_record.asked_with import system_message_for
from expert_worker.run_record.expert import describe_export
from expert_worker.run_record.inference import answers_of

MODELFILE = "Modelfile"
QUESTIONS = 8
_LONGEST_ANSWER = 48
_LONGEST_QUESTION = 4000
_GENERAL = ("What is the capital of France?", "Write a short sentence about the sea.", "List three colours.")


def model_file_name(expert: str, *, merge: bool, quantize: GgufQuantization | None) -> str:
    """With the quantization, as GGUF files on the Hub have it."""
    suffix = f".{quantize.upper()}" if quantize else ""
    return f"{expert if merge else 'base'}{suffix}.gguf"


def fill_with_gguf(
    recipe: Recipe,
    machine: Machine,
    events: Events,
    adapter: Path,
    folder: Path,
    *,
    merge: bool,
    quantize: GgufQuantization | None = None,
) -> AnswerCheck:
    """Everything is computed from fp32, with the weights that the file holds: only the rounding of
    llama.cpp's products is between both."""
    config = read_config(adapter)
    if merge:
        demand_mergeable(config)
    else:
        check_kind(config)
    check_rope_scaling(recipe.base.rope_scaling)
    base = folders.unquantized(recipe.base, events).model_copy(update={"quantization": "none"})
    source = locate(base, machine.paths, events)
    written, in_fp32 = model_sizes(source, quantize)
    # The merged weights are in a folder beside the file that they are written into.
    folders.demand_room(written + (in_fp32 if merge else 0), folder)
    if not merge:
        check_head(adapter, source)
    tokenizer = load_tokenizer(base, machine.paths, events)
    computed = "the answers that the file is compared with are computed"
    wide = where_it_fits(machine.model_copy(update={"dtype": "fp32"}), in_fp32, computed, events)
    model = load_adapter(load_base(base, wide, events, as_stored=True), adapter)
    template, decoding = answers_of(adapter, recipe, model, tokenizer)
    name = recipe.expert
    model_file = folder / model_file_name(name, merge=merge, quantize=quantize)
    adapter_file = None if merge else folder / f"{name}.gguf"
    folders.begin(events, "write", quiet_budget=folders.SLOW, detail=model_file.name)
    if merge:
        model = _merged(model, source, model_file, name, template, quantize)
    else:
        write_model(source, model_file, name, template, quantize)
    if adapter_file is not None:
        write_adapter(adapter, source, adapter_file)
    folders.copy_companions(recipe, machine.paths, events, model, adapter, folder, with_tokenizer=False)
    write_gguf_card(folder, recipe, model_file.name, adapter_file.name if adapter_file else None)
    sequences = decoding.stop_sequences
    ends = [str(tokenizer.decode([token])) for token in end_ids(model, tokenizer, sequences)]
    ends += stop_texts(tokenizer, sequences)
    text = modelfile(
        model_file.name,
        adapter_file.name if adapter_file else None,
        go_template(tokenizer, template),
        decoding,
        _in_modelfile(ends, events),
        system_message=system_message_for(adapter, recipe.data, machine.paths.data),
        repetition_penalty=repetition_penalty(model),
        context=context_length(
            recipe.batch.max_seq_length,
            decoding.max_new_tokens,
            getattr(model.config, "max_position_embeddings", None),
        ),
    )
    (folder / MODELFILE).write_text(text, encoding="utf-8")
    copy_base_license(source, folder)
    describe_export(folder, adapter)
    folders.begin(events, "compare answers", quiet_budget=folders.SLOW, detail="llama.cpp with transformers")
    asked = decoding.model_copy(
        update={
            "temperature": 0.0,
            "grammar": None,
            "max_new_tokens": min(decoding.max_new_tokens, _LONGEST_ANSWER),
        }
    )
    reference = llama_cpp.Reference(model, tokenizer, asked, template)
    questions = _questions(recipe, machine, reference)
    unquantized = None
    if quantize is not None:
        unquantized = llama_cpp.own_answers(reference, questions)
        _quantize(model, quantize)
    near = llama_cpp.NEAR if quantize is None else llama_cpp.NEAR_QUANTIZED
    return llama_cpp.compare(
        reference, model_file, adapter_file, questions, events, near=near, unquantized=unquantized
    )


def _in_modelfile(ends: Sequence[str], events: Events) -> list[str]:
    kept = list(dict.fromkeys(ends))
    for end in [end for end in kept if not has_stop_form(end)]:
        kept.remove(end)
        events.warning(
            "stop-not-in-modelfile",
            f"The stop text {json.dumps(end)} is left out of the Modelfile, where three quotes end a text",
            "Give it to Ollama with each request, as `stop`.",
        )
    return kept


def _quantize(model: Any, quantize: GgufQuantization) -> None:
    """The base computes as llama.cpp does from the file: with the weights of its blocks, which are parts of
    rows, so that the order of rows in the file does not matter, and with inputs in blocks of 8 bits."""
    modules = dict(model.named_modules())
    for name, weight in model.named_parameters():
        if "lora_" in name:
            continue
        key = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
        kind = tensor_type(key, tuple(weight.shape), quantize)
        weight.data = _rounded(weight.detach(), kind)
        module = modules[name.rpartition(".")[0]]
        if isinstance(module, torch.nn.Linear) and kind not in _PLAIN:
            module.register_forward_pre_hook(_round_input)
    head = model.get_output_embeddings()
    if head.weight is model.get_input_embeddings().weight:
        head.register_forward_pre_hook(_round_input)


_PLAIN = (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16)


def _round_input(_: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return _rounded(given[0], gguf.GGMLQuantizationType.Q8_0), *given[1:]


def _rounded(tensor: torch.Tensor, kind: gguf.GGMLQuantizationType) -> torch.Tensor:
    packed = gguf.quants.quantize(np.ascontiguousarray(tensor.float().cpu().numpy()), kind)
    held = gguf.quants.dequantize(packed, kind).astype(np.float32)
    return torch.from_numpy(held).to(tensor.device)


def _merged(
    model: Any,
    source: Path,
    target: Path,
    name: str,
    template: str,
    quantize: GgufQuantization | None,
) -> Any:
    """The weights go through a folder of safetensors, which is read one tensor at a time."""
    spoken = folders.logits(model)
    folders.untie(model)
    merged = model.merge_and_unload(safe_merge=True)
    folders.demand_equal(folders.difference(spoken, folders.logits(merged)), merged.dtype, "The merged model")
    with tempfile.TemporaryDirectory(prefix="merged-", dir=target.parent) as name_of_folder:
        folder = Path(name_of_folder)
        merged.save_pretrained(str(folder), safe_serialization=True)
        for path in source.iterdir():
            if path.is_file() and folders.is_tokenizer(path.name):
                shutil.copyfile(path, folder / path.name)
        write_model(folder, target, name, template, quantize)
    return merged.eval()


def _questions(recipe: Recipe, machine: Machine, reference: llama_cpp.Reference) -> list[list[Message]]:
    """Of the expert's own rows, those that it is tested with first; general ones where no data is here."""
    data, places = recipe.data, machine.paths.data
    for sources in (data.test, data.validation, data.train):
        if sources and all(Path(places.get(source.name, "")).is_file() for source in sources):
            rows = rows_of(sources, data.field_mapping, places, 500, broken=BrokenRows())
            asked = (row["messages"] for row in rows if len(str(row["messages"])) < _LONGEST_QUESTION)
            short = [messages for messages in asked if llama_cpp.has_room(reference, messages)]
            if short:
                return [list(messages) for messages in spread(short, QUESTIONS)]
    return [[{"role": "user", "content": text}] for text in _GENERAL]
