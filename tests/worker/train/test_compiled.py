"""torch_compile changes no number, and a few graphs serve every layer and every length of batch."""

from __future__ import annotations

import shutil

import pytest
import torch
from tiny import apart, flat, gradients, lora

from expert_worker.crash import as_expert_error
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place, install

# No number of tokens is another size of the model as well: torch would take the two for one.
BATCHES = [(9, 1, 17, 6), (3, 40), (12, 13, 9, 19), (37,)]
HAS_COMPILER = any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def compare(model, backend, checkpointing="none"):
    place = Place()
    install(model, place)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    plain = FastDecoder(model, place, checkpointing=checkpointing)
    compiled = FastDecoder(
        model,
        place,
        checkpointing=checkpointing,
        compiled=lambda part: torch.compile(part, backend=backend, dynamic=True),
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


# Each takes half a minute.
@pytest.mark.full
@pytest.mark.parametrize(
    ("dora", "dropout", "checkpointing"),
    [(True, 0.3, "full"), (False, 0.0, "none"), (False, 0.3, "selective")],
)
def test_what_is_traced_computes_the_same(dora, dropout, checkpointing):
    compare(lora(dora=dora, dropout=dropout), "aot_eager", checkpointing)
    # Three parts; the first layer's input needs no gradient; with gradients and, in evaluation, without.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 3 * 2 + 2
    assert not torch._dynamo.utils.counters["graph_break"]


@pytest.mark.full
@pytest.mark.skipif(not HAS_COMPILER, reason="torch's own compiler needs one for C++")
def test_what_inductor_makes_computes_the_same():
    compare(lora(dropout=0.3), "inductor")


def test_a_missing_compiler_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    error = torch._inductor.exc.InductorError(RuntimeError("No working C++ compiler found"), None)
    known = as_expert_error(error)
    assert known.code == "not-compiled"
    assert "torch_compile" in known.hint
