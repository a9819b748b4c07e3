"""torch_compile changes no number, and a few graphs serve every layer and every length of batch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import torch
from tiny import apart, flat, gradients, lora

from expert_worker.crash import as_expert_error
from expert_worker.events import Events
from expert_worker.plan import Compile
from expert_worker.train import engine
from expert_worker.train.fast import compiler
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place, install
from expert_worker.train.fast.kernels import triton_code, verdicts
from expert_worker.train.fast.kernels.verdicts import Trial

# Five numbers of tokens.
BATCHES = [(9, 1, 17, 6), (3, 40), (12, 13, 9, 19), (37,), (80,)]
BF16 = torch.bfloat16
HAS_COMPILER = any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def compare(model, backend, checkpointing="none", failed=None):
    place = Place()
    install(model, place)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    plain = FastDecoder(model, place, checkpointing=checkpointing)
    compiled = FastDecoder(
        model, place, checkpointing=checkpointing, compiled=compiler.compiler(backend, failed=failed)
    )
    for lengths in BATCHES:
        expected, wanted = walked(plain, model, lengths)
        loss, found = walked(compiled, model, lengths)
        assert apart(loss, expected) < 1e-5
        worst = max(wanted, key=lambda name: apart(found[name], wanted[name]))
        assert apart(found[worst], wanted[worst]) < 1e-5, worst
    model.eval()
    with torch.no_grad():
        assert apart(compiled.loss(flat((7, 20, 2))), plain.loss(flat((7, 20, 2)))) < 1e-5


def walked(decoder, model, lengths):
    model.train().zero_grad()
    loss = decoder.loss(flat(lengths))
    loss.backward()
    return loss.detach(), {name: gradient.clone() for name, gradient in gradients(model).items()}


@pytest.mark.parametrize(
    ("dora", "dropout", "checkpointing"),
    [(True, 0.3, "full"), (False, 0.0, "none"), (False, 0.3, "selective")],
)
def test_what_is_traced_computes_the_same(dora, dropout, checkpointing):
    compare(lora(dora=dora, dropout=dropout), "aot_eager", checkpointing)
    # Norm, sum and norm, heads, SwiGLU, and without gradients; the norm of the first layer, whose input needs
    # none; the sum behind the last layer, which no norm follows.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2 * 4 + 2
    assert not torch._dynamo.utils.counters["graph_break"]


# Half a minute.
@pytest.mark.full
@pytest.mark.skipif(not HAS_COMPILER, reason="torch's own compiler needs one for C++")
def test_what_inductor_makes_computes_the_same():
    compare(lora(dropout=0.3), "inductor")


def broken(_graph, _inputs):
    raise RuntimeError("this machine compiles nothing")


def test_what_cannot_be_compiled_runs_as_it_is():
    """And says so once, for all functions."""
    said = []
    compare(lora(), broken, failed=said.append)
    (error,) = said
    assert "this machine compiles nothing" in compiler.reason(error)
    with pytest.raises(Exception, match="this machine compiles nothing") as raised:
        compare(lora(), broken)
    assert as_expert_error(raised.value).code == "not-compiled"


def test_an_error_of_the_function_is_raised():
    def refuses(_x):
        raise torch.OutOfMemoryError("no memory")

    said = []
    torch._dynamo.reset()
    with pytest.raises(torch.OutOfMemoryError):
        compiler.compiler("eager", failed=said.append)(torch._dynamo.disable(refuses))(torch.ones(4, 4))
    assert not said


def test_what_inductor_needs(monkeypatch):
    for variable in ("CC", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    monkeypatch.setattr(triton_code, "find_spec", lambda name: None)
    assert compiler.missing(cuda, "inductor") == "Triton is not installed"
    monkeypatch.setattr(triton_code, "find_spec", lambda name: name)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert compiler.missing(cuda, "inductor") == "there is no C compiler"
    assert compiler.missing(cpu, "inductor") == "there is no C++ compiler"
    assert compiler.missing(cuda, "aot_eager") is None
    monkeypatch.setenv("CC", "tcc")
    assert compiler.missing(cuda, "inductor") is None


class Said:
    """In place of the events' file."""

    def __init__(self):
        self.warnings = []

    def write(self, event, _line):
        if event.body.type == "warning":
            self.warnings.append((event.body.code, event.body.message))

    def close(self):
        pass


def test_a_run_says_why_it_is_not_compiled(monkeypatch, tmp_path):
    said = Said()
    monkeypatch.setattr(engine.compiler, "missing", lambda *_: "there is no C compiler")
    wanted = Compile(backend="inductor", mode="default", asked=True)
    assert engine._compiled(wanted, tmp_path, torch.device("cuda"), BF16, Events([said])) is None
    ((kind, words),) = said.warnings
    assert kind == "not-compiled" and "there is no C compiler" in words and "uncompiled" in words


def test_what_nobody_asks_for_is_compiled_where_it_was_found_right(tmp_path):
    wanted, cpu, said = Compile(backend="aot_eager", mode="default", asked=False), torch.device("cpu"), Said()

    def compiled(dtype=BF16):
        return engine._compiled(wanted, tmp_path, cpu, dtype, Events([said])) is not None

    def found(verdict, reason=""):
        kernel = Trial(verdicts.COMPILED, verdicts.COMPILER, "bf16", verdict, reason)
        verdicts.keep(tmp_path, cpu, [kernel], "2026-01-02")

    assert not compiled()
    found("differs", "its loss differs by nan")
    assert not compiled()
    found("right")
    assert compiled() and not compiled(torch.float16)
    assert [kind for kind, _ in said.warnings] == ["not-compiled"] * 3
    untried, differs, other_format = (words for _, words in said.warnings)
    assert "expert-cli doctor --prove" in untried and "expert-cli doctor --prove" in other_format
    assert "its loss differs by nan" in differs


def test_a_folder_that_the_user_named_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/named")
    compiler.keep_between_runs(tmp_path)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/named"


AGAIN = """
import torch
import torch._inductor.runtime.cache_dir_utils
from pathlib import Path
from expert_worker.train.fast import compiler
torch._inductor.runtime.cache_dir_utils.cache_dir()
compiler.keep_between_runs(Path({home!r}))
function = compiler.compiler("inductor")(lambda x, y: (x * y).sin() + x)
x = torch.ones(40, 16, requires_grad=True)
function(x, torch.ones(40, 16)).sum().backward()
print("kept", torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"])
"""


@pytest.mark.full
@pytest.mark.skipif(not HAS_COMPILER, reason="torch's own compiler needs one for C++")
def test_another_run_finds_it_compiled(tmp_path):
    environment = {name: text for name, text in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    found = []
    for _ in range(2):
        program = AGAIN.format(home=str(tmp_path))
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
        )
        found.append(int(done.stdout.split()[-1]))
    assert found[0] == 0 and found[1] > 0
    assert (tmp_path / "compiled").is_dir()


def test_a_missing_compiler_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    error = torch._inductor.exc.InductorError(RuntimeError("No working C++ compiler found"), None)
    known = as_expert_error(error)
    assert known.code == "not-compiled"
    assert "torch_compile" in known.hint
