"""GGUF files of adapters and whole models, for llama.cpp, Ollama and LM Studio.

Only architectures and tokenizers are written whose form in llama.cpp is known. Every file is then compared
with plain transformers and peft (`llama_cpp.py`) before it is published.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors import safe_open

from expert_worker.adapter import CONFIG, WEIGHTS
from expert_worker.base.locate import weight_files
from expert_worker.checkpoint import files
from expert_worker.errors import BadInput
from expert_worker.export.forms import without_form
from expert_worker.plan import GgufQuantization, RopeScaling

_FILE_TYPES: dict[GgufQuantization | None, gguf.LlamaFileType] = {
    None: gguf.LlamaFileType.MOSTLY_F16,
    "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "q4_1": gguf.LlamaFileType.MOSTLY_Q4_1,
}
_HEAD = "lm_head"
_EIGHT_BITS = ("model.embed_tokens.weight", f"{_HEAD}.weight")
_MERGED = "Export the whole model with --merge --gguf."
_CONVERTER = "Export merged weights with --merge and convert them with llama.cpp's convert_hf_to_gguf.py."


@dataclass(frozen=True)
class Layout:
    """How llama.cpp holds an architecture."""

    kind: gguf.MODEL_ARCH
    # Rows of q and k in the order of its rotary embedding, which pairs neighbours instead of halves.
    permuted: bool


LAYOUTS = {
    "llama": Layout(gguf.MODEL_ARCH.LLAMA, permuted=True),
    "mistral": Layout(gguf.MODEL_ARCH.LLAMA, permuted=True),
    "qwen2": Layout(gguf.MODEL_ARCH.QWEN2, permuted=False),
    "qwen3": Layout(gguf.MODEL_ARCH.QWEN3, permuted=False),
}
# What splits text before merges, by the names of llama.cpp.
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {_QWEN2: "qwen2", _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|"): "llama-bpe"}


@dataclass(frozen=True)
class Shape:
    """A model's config.json: what GGUF needs of it."""

    layout: Layout
    layers: int
    heads: int
    key_heads: int
    config: dict[str, Any]

    @classmethod
    def of(cls, folder: Path) -> Shape:
        config = files.read_json(folder / "config.json")
        name = str(config.get("model_type"))
        layout = LAYOUTS.get(name)
        if layout is None:
            known = ", ".join(sorted(LAYOUTS))
            raise _unknown(f"The architecture {name} is not one that this program writes as GGUF ({known})")
        scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
        # Older files have `type`, which transformers reads too.
        rope = scaling.get("rope_type", scaling.get("type", "default"))
        if rope != "default":
            raise _unknown(f"The base scales its rotary embedding ({rope}), which is not written as GGUF")
        if config.get("sliding_window") and config.get("use_sliding_window", name == "mistral"):
            raise _unknown("The base has sliding-window attention, which is not written as GGUF")
        heads = int(config["num_attention_heads"])
        return cls(
            layout=layout,
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            key_heads=int(config.get("num_key_value_heads") or heads),
            config=config,
        )

    def placed(self, name: str, tensor: Any) -> Any:
        """The rows of a weight, a bias or a lora_B in llama.cpp's order."""
        last = name.rsplit(".", 1)[-1]
        if not self.layout.permuted or last not in ("q_proj", "k_proj"):
            return tensor
        heads = self.heads if last == "q_proj" else self.key_heads
        rows = tensor.shape[0] // heads // 2
        return tensor.reshape(heads, 2, rows, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)


def write_adapter(adapter: Path, base: Path, target: Path) -> None:
    """A LoRA or rsLoRA adapter, in fp32 as it was trained."""
    config, shape = files.read_json(adapter / CONFIG), Shape.of(base)
    check_kind(config)
    rank, alpha = int(config["r"]), float(config["lora_alpha"])
    writer = gguf.GGUFWriter(target, gguf.MODEL_ARCH_NAMES[shape.layout.kind])
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    # llama.cpp scales by alpha / rank, rsLoRA by alpha / sqrt(rank).
    writer.add_float32(
        gguf.Keys.Adapter.LORA_ALPHA, alpha * math.sqrt(rank) if config.get("use_rslora") else alpha
    )
    names = gguf.get_tensor_name_map(shape.layout.kind, shape.layers)
    with safe_open(adapter / WEIGHTS, framework="pt") as found:
        for key in sorted(found.keys()):
            module, _, which = key.removeprefix("base_model.model.").removesuffix(".weight").rpartition(".")
            place = names.get_name(module)
            if which not in ("lora_A", "lora_B") or place is None:
                raise _unknown(f"The adapter's tensor {key} has no form in GGUF")
            tensor = found.get_tensor(key).float().numpy()
            if which == "lora_B":
                tensor = shape.placed(module, tensor)
            writer.add_tensor(f"{place}.weight.{which.lower()}", np.ascontiguousarray(tensor))
    _finish(writer)


def check_kind(config: dict[str, Any]) -> None:
    if config.get("peft_type") != "LORA" or config.get("use_dora"):
        loads = ": llama.cpp loads LoRA and rsLoRA"
        raise without_form(config, "GGUF", loads, _MERGED, "adapter-not-gguf")
    # llama.cpp divides one alpha by each module's rank: that is peft's scale, except for rsLoRA.
    scales = ("alpha_pattern", *(("rank_pattern",) if config.get("use_rslora") else ()))
    for name in scales:
        if config.get(name):
            raise BadInput(
                f"{name} of {CONFIG} has no form in GGUF, which has one alpha for all modules",
                hint=_MERGED,
                code="adapter-not-gguf",
            )


def check_head(adapter: Path, base: Path) -> None:
    if not files.read_json(base / "config.json").get("tie_word_embeddings"):
        return
    with safe_open(adapter / WEIGHTS, framework="pt") as found:
        on_head = any(f".{_HEAD}." in key for key in found.keys())  # noqa: SIM118 (not a mapping)
    if on_head:
        raise BadInput(
            f"An adapter on {_HEAD} has no form in GGUF where the base shares its weights with the embedding",
            hint=_MERGED,
            code="adapter-not-gguf",
        )


def check_rope_scaling(scaling: RopeScaling | None) -> None:
    if scaling is not None:
        raise _unknown(
            f"Training scaled the base's rotary embedding ({scaling.kind}), which is not written as GGUF"
        )


def write_model(
    folder: Path, target: Path, name: str, template: str, quantize: GgufQuantization | None = None
) -> None:
    """Base or merged weights, with tokenizer and chat template, one tensor in memory at a time."""
    shape = Shape.of(folder)
    writer = gguf.GGUFWriter(target, gguf.MODEL_ARCH_NAMES[shape.layout.kind])
    _add_settings(writer, shape, name, _FILE_TYPES[quantize])
    _add_tokenizer(writer, folder, shape, template)
    tensors = list(_tensors(folder, shape, quantize))
    for place, _, _, dimensions, kind in tensors:
        # The number format is read from the type of the tensor; NumPy has none for blocks.
        writer.add_tensor_info(place, dimensions, np.dtype(np.float32), _bytes(dimensions, kind), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for _, key, file, _, kind in tensors:
        with safe_open(file, framework="pt") as found:
            tensor = found.get_tensor(key).to(torch.float32)
        placed = shape.placed(key.rpartition(".")[0], tensor.numpy())
        writer.write_tensor_data(gguf.quants.quantize(np.ascontiguousarray(placed), kind))
    writer.close()


def model_sizes(folder: Path, quantize: GgufQuantization | None) -> tuple[int, int]:
    """Bytes of the weights in the file, and of the same weights in fp32."""
    tensors = list(_tensors(folder, Shape.of(folder), quantize))
    written = sum(_bytes(dimensions, kind) for _, _, _, dimensions, kind in tensors)
    return written, sum(4 * math.prod(dimensions) for _, _, _, dimensions, _ in tensors)


def _bytes(dimensions: Sequence[int], kind: gguf.GGMLQuantizationType) -> int:
    length, size = gguf.GGML_QUANT_SIZES[kind]
    return math.prod(dimensions) // length * size


def tensor_type(
    key: str, dimensions: Sequence[int], quantize: GgufQuantization | None
) -> gguf.GGMLQuantizationType:
    """Vectors stay in f32, as llama.cpp has them. Embedding and output decide most about an answer, and are
    never below 8 bits. A block is 32 numbers of one row."""
    if len(dimensions) == 1:
        return gguf.GGMLQuantizationType.F32
    if quantize is None or dimensions[-1] % 32:
        return gguf.GGMLQuantizationType.F16
    if quantize == "q8_0" or key in _EIGHT_BITS:
        return gguf.GGMLQuantizationType.Q8_0
    return gguf.GGMLQuantizationType.Q4_1


def _tensors(
    folder: Path, shape: Shape, quantize: GgufQuantization | None
) -> Iterator[tuple[str, str, Path, list[int], gguf.GGMLQuantizationType]]:
    """Name in GGUF, name and file here, dimensions, type."""
    names = gguf.get_tensor_name_map(shape.layout.kind, shape.layers)
    for file in weight_files(folder):
        with safe_open(file, framework="pt") as found:
            for key in sorted(found.keys()):
                place = names.get_name(key, try_suffixes=(".weight", ".bias"))
                if place is None:
                    raise _unknown(f"The model's tensor {key} has no form in GGUF")
                if key == f"{_HEAD}.weight" and shape.config.get("tie_word_embeddings"):
                    continue
                dimensions = list(found.get_slice(key).get_shape())
                yield place, key, file, dimensions, tensor_type(key, dimensions, quantize)


def _add_settings(writer: Any, shape: Shape, name: str, file_type: gguf.LlamaFileType) -> None:
    config = shape.config
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(name)
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(int(config["max_position_embeddings"]))
    writer.add_embedding_length(int(config["hidden_size"]))
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(int(config["intermediate_size"]))
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_layer_norm_rms_eps(float(config["rms_norm_eps"]))
    rope = config.get("rope_parameters") or {}
    writer.add_rope_freq_base(float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0))
    width = int(config.get("head_dim") or int(config["hidden_size"]) // shape.heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_vocab_size(int(config["vocab_size"]))


def _add_tokenizer(writer: Any, folder: Path, shape: Shape, template: str) -> None:
    document = json.loads((folder / "tokenizer.json").read_bytes())
    model = document["model"]
    if model.get("type") != "BPE" or model.get("byte_fallback"):
        raise _unknown("The base's tokenizer is not a byte-level BPE, and is not written as GGUF")
    texts = {place: text for text, place in model["vocab"].items()}
    kinds = dict.fromkeys(texts, gguf.TokenType.NORMAL)
    for token in document.get("added_tokens", ()):
        texts[token["id"]] = token["content"]
        special = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
        kinds[token["id"]] = special
    count = int(shape.config["vocab_size"])
    if (largest := max(texts)) >= count:
        # llama.cpp loads no file with more texts of tokens than vectors.
        raise _unknown(
            f"The base's tokenizer has the token {texts[largest]!r} with the id {largest}, but the base has "
            f"only {count} token vectors, which is not written as GGUF"
        )
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_split(document.get("pre_tokenizer") or {}))
    writer.add_token_list([texts.get(place, f"[PAD{place}]") for place in range(count)])
    writer.add_token_types([kinds.get(place, gguf.TokenType.UNUSED) for place in range(count)])
    vocabulary = gguf.SpecialVocab(folder, load_merges=True, n_vocab=count)
    vocabulary.chat_template = template
    # The template says where the first token stands, as in training.
    vocabulary.add_special_token = {"bos": False, "eos": False}
    vocabulary.add_to_gguf(writer, quiet=True)


def _split(pre: dict[str, Any]) -> str:
    steps = pre.get("pretokenizers", [pre]) if pre else []
    kinds = [step.get("type") for step in steps]
    if kinds == ["ByteLevel"] and steps[0].get("use_regex", True) and not steps[0].get("add_prefix_space"):
        return "gpt-2"
    if kinds == ["Digits", "ByteLevel"] and steps[0].get("individual_digits"):
        return "smollm"
    if kinds == ["Split", "ByteLevel"] and steps[0]["pattern"].get("Regex") in _SPLITS:
        return _SPLITS[steps[0]["pattern"]["Regex"]]
    raise _unknown("The base's tokenizer splits text in a way that is not written as GGUF")


def _finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _unknown(message: str) -> BadInput:
    return BadInput(message, hint=_CONVERTER, code="gguf-unknown")
