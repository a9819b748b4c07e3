"""The embedded base: converted once, and then the very same numbers."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from expert_worker.base.embedded import NAME, _gguf, _read_once, embedded, quietly
from expert_worker.events import Events


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    events, said = Events.in_memory()
    return embedded(home, events), home, said


def read_as_the_conversion_does():
    import gguf

    with _read_once():
        return gguf.GGUFReader(_gguf())


@pytest.mark.full
def test_the_file_is_read_as_its_own_library_reads_it():
    from gguf import GGUFReader

    found, expected = read_as_the_conversion_does(), GGUFReader(_gguf())
    assert list(found.fields) == list(expected.fields)
    for name, field in expected.fields.items():
        assert (found.fields[name].types, found.fields[name].contents()) == (field.types, field.contents())
    for tensor, other in zip(found.tensors, expected.tensors, strict=True):
        assert (tensor.name, tensor.tensor_type, *tensor.shape) == (
            other.name,
            other.tensor_type,
            *other.shape,
        )
        assert tensor.data_offset == other.data_offset


def test_the_reloaded_weights_differ_by_nothing(converted):
    """Held against the GGUF's own numbers, dequantized by another library."""
    from gguf import dequantize
    from safetensors import safe_open

    folder, _, _ = converted
    stored = {tensor.name: tensor for tensor in read_as_the_conversion_does().tensors}
    pairs = {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.7.ffn_down.weight": "model.layers.7.mlp.down_proj.weight",
    }
    with safe_open(folder / "model.safetensors", "pt") as weights:
        for ours, theirs in ((weights.get_tensor(new), stored[old]) for old, new in pairs.items()):
            wanted = torch.from_numpy(dequantize(theirs.data, theirs.tensor_type).copy())
            assert float((ours - wanted.view(ours.shape)).abs().max()) == 0.0


def test_it_loads_as_a_plain_base(converted):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, home, _ = converted
    quietly()
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert not hasattr(model.config, "quantization_config")
    assert model.config.eos_token_id == tokenizer.eos_token_id == tokenizer.pad_token_id == 2
    assert (
        str(home) not in (folder / "config.json").read_text() + (folder / "tokenizer_config.json").read_text()
    )
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    answer = model.generate(**asked, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(answer[0, asked["input_ids"].shape[1] :])


def test_the_tokenizer_is_what_the_file_describes(converted):
    """Whatever version of transformers reads it: no token more, and texts end where its answers end."""
    from transformers import AutoTokenizer

    folder, _, _ = converted
    fields = read_as_the_conversion_does().fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert tokenizer.convert_ids_to_tokens(range(len(tokenizer))) == tokens
    special = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id)
    assert special == (1, 2, 2, 0)
    text = "SELECT 'Ōsaka', 3.14 <|im_end|>\n\tFROM t;  -- 100 %"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert 2 in tokenizer(text)["input_ids"]
    assert tokenizer.chat_template == fields["tokenizer.chat_template"].contents()


def test_two_processes_at_once(tmp_path):
    """One converts, the other waits for it."""
    code = (
        "import sys; from pathlib import Path; from expert_worker.base.embedded import embedded;"
        "from expert_worker.events import Events; embedded(Path(sys.argv[1]), Events())"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for _ in range(2)
    ]
    said = [process.communicate()[0].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [path.name for path in (tmp_path / "bases").iterdir() if not path.name.startswith(".")] == [NAME]


def test_whom_the_umask_allows_reads_every_file(converted):
    folder, home, _ = converted
    (home / "new").write_text("")
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert set(modes.values()) == {(home / "new").stat().st_mode & 0o777}, modes


def test_a_second_call_converts_nothing(converted):
    folder, home, _ = converted
    before = (folder / "model.safetensors").stat().st_mtime_ns
    events, said = Events.in_memory()
    assert embedded(home, events) == folder == home / "bases" / NAME
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert not said.events
