"""Batches padded to fixed shapes, and passes that are replayed: the same losses and gradients, few shapes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import torch
from scene import put_data, train
from tiny import apart, flat, gradients, lora

from expert_worker.events import Events
from expert_worker.plan import Graphs
from expert_worker.train import step_graph
from expert_worker.train.distributed import DistContext
from expert_worker.train.engine import FastEngine, PlainEngine
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place, install
from expert_worker.train.fast.kernels import verdicts
from expert_worker.train.fast.kernels.adapted_linear import on_card
from expert_worker.train.fast.kernels.attention import Documents
from expert_worker.train.fast.kernels.attention.sdpa import by_document
from expert_worker.train.fast.static_batch import MOST_SHAPES, Shape, Shapes, StaticBatch
from expert_worker.train.objective import SupervisedFineTuning
from expert_worker.train.step_graph import GraphEngine
from expert_worker.train.trainer import GradientAccumulator

CPU = torch.device("cpu")
SHAPE = Shape(tokens=128, supervised=64, documents=16, longest=40)
WITHIN = 1e-6


@pytest.fixture(autouse=True)
def cards(monkeypatch):
    monkeypatch.setattr(on_card, "DEVICES", {"cuda", "cpu"})


def varlen(q, k, v, documents, scale):
    """Attention that knows documents by their boundaries and the longest, as kernels of a GPU do."""
    lengths = tuple(documents.boundaries.diff().tolist())
    assert sum(lengths) == len(q) and max(lengths) <= documents.longest
    return by_document(q, k, v, Documents(lengths, q.device), scale)


def engine(dropout=0.0, **settings):
    model, place = lora(dropout=dropout), Place()
    install(model, place)
    decoder = FastDecoder(model, place, kernels={"adapted_linear": "lora_on_card"}, **settings)
    for layer in decoder.layers:
        layer._attend = varlen
    return FastEngine(model, decoder, SupervisedFineTuning(), CPU, None)


def gone_through(made, batches, scale=1 / 7):
    # Read at the end of the step, as the trainer does.
    losses = torch.stack([made.backward(batch, scale) for batch in batches])
    model = getattr(made, "_inner", made)._model
    return losses, gradients(model)


def compare(found, expected):
    assert apart(found[0], expected[0]) < WITHIN
    assert found[1].keys() == expected[1].keys() and found[1]
    # A query that sees one key has no gradient but rounding, which is another one on every processor.
    largest = max(gradient.norm() for gradient in expected[1].values())
    for name, gradient in expected[1].items():
        away = (found[1][name] - gradient).norm()
        assert away < WITHIN * (gradient.norm() if gradient.norm() > WITHIN * largest else largest), name


SETTINGS = [{}, {"dropout": 0.3}, {"checkpointing": "selective"}, {"checkpointing": "full"}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("lengths", [(9, 1, 17, 5), (40,), (2,) * 12])
def test_padding_adds_nothing(settings, lengths):
    made, batch = engine(**settings), flat(lengths)
    expected = gone_through(made, [batch])
    static = StaticBatch.of(SHAPE, CPU, with_keys=True)
    static.fill(batch, 1 / 7)
    loss = made.backward(static, static.scale)
    compare((loss.reshape(1), gradients(made._model)), expected)


def test_a_batch_without_supervised_tokens_adds_zeros():
    made, batch = engine(), flat((9, 8))
    batch.labels.fill_(-100)
    static = StaticBatch.of(SHAPE, CPU, with_keys=True)
    static.fill(batch, 1.0)
    assert float(made.backward(static, static.scale)) == 0
    assert all(float(gradient.abs().max()) == 0 for gradient in gradients(made._model).values())


def test_a_step_without_supervised_tokens_has_no_gradients():
    """As without graphs: its optimizer step changes nothing."""
    made, nothing = captured(Recorder()), flat((9, 8))
    nothing.labels.fill_(-100)
    assert float(made.backward(nothing, 1.0)) == 0 and not gradients(made._inner._model)


@dataclass
class Recorder:
    """In place of a capture: a replay computes again what was captured."""

    fails: Exception | None = None
    captured: int = 0
    replayed: int = 0
    renewed: int = 0
    before: Callable[[], None] = lambda: None

    def renew(self):
        self.renewed += 1

    def __call__(self, function):
        if self.fails is not None:
            raise self.fails
        self.captured += 1

        def replay():
            self.replayed += 1
            self.before()
            function()

        return replay


@dataclass
class Said:
    """In place of the events' file."""

    warnings: list[str] = field(default_factory=list)

    def write(self, event, _line):
        if event.body.type == "warning":
            assert event.body.code == step_graph.NOT_CAPTURED
            self.warnings.append(event.body.message)

    def close(self):
        pass


def captured(recorder, longest=40, said=None, **settings):
    return GraphEngine(engine(**settings), longest, CPU, Events([said or Said()]), recorder)


BATCHES = [[flat((9, 1, 17, 5)), flat((20, 12))], [flat((30,)), flat((6, 7, 8), 3)], [flat((25, 9), 4)]]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_steps_of_several_micro_batches(dropout):
    """Gradients start from zero in each step; parameters that changed are read by the next replay."""
    recorder = Recorder()
    made, plain = captured(recorder, dropout=dropout), engine(dropout=dropout)
    copies = made._inner.decoder.kernels.copies

    def copied():
        assert copies._valid

    recorder.before = copied
    for batches in BATCHES:
        compare(gone_through(made, batches), gone_through(plain, batches))
        for one in (made, plain):
            with torch.no_grad():
                for parameter in getattr(one, "_inner", one).trained:
                    parameter.mul_(1.1)
            one.parameters_changed()
    # One shape for all: the first batch is computed, the second captured, and all from then on are replayed.
    assert (recorder.captured, recorder.replayed) == (1, 4)


def test_a_capture_that_fails_loses_nothing():
    recorder, said = Recorder(RuntimeError("operation not permitted when stream is capturing")), Said()
    made = captured(recorder, said=said)
    compare(gone_through(made, BATCHES[0] + BATCHES[1]), gone_through(engine(), BATCHES[0] + BATCHES[1]))
    (warning,) = said.warnings
    assert "operation not permitted" in warning and recorder.replayed == 0


def test_memory_that_runs_out_in_a_capture():
    recorder, said = Recorder(torch.OutOfMemoryError("CUDA out of memory")), Said()
    made = captured(recorder, said=said)
    compare(gone_through(made, BATCHES[0]), gone_through(engine(), BATCHES[0]))
    assert "out of memory in the capture" in said.warnings[0]


def test_graphs_make_room_for_a_new_shape():
    """Its first pass allocates as much as the graphs hold; they are captured again afterwards."""
    recorder = Recorder()
    made, plain = captured(recorder), engine()
    long = [flat((40, 40, 40, 40, 40, 30))]
    for batches in (BATCHES[0], long, BATCHES[0], long):
        compare(gone_through(made, batches), gone_through(plain, batches))
    assert recorder.renewed == 1 and recorder.captured == 3


def refusing(monkeypatch, made, refusals):
    usual = FastEngine.backward

    def short(self, batch, scale):
        if self is made._inner and refusals:
            refusals.pop()
            raise torch.OutOfMemoryError("CUDA out of memory")
        return usual(self, batch, scale)

    monkeypatch.setattr(FastEngine, "backward", short)


def test_memory_that_runs_out_late_in_a_batch_adds_no_gradient_twice(monkeypatch):
    """Some parameters have theirs by then: the step is repeated, with as many rows, now that the graphs are
    gone."""
    said = Said()
    made, plain = captured(Recorder(), said=said), engine()
    gone_through(made, BATCHES[0])
    usual, refusals = FastEngine.backward, [1]

    def late(self, batch, scale):
        loss = usual(self, batch, scale)
        if self is made._inner and refusals:
            refusals.pop()
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss

    monkeypatch.setattr(FastEngine, "backward", late)
    events, empty = Events([said]), SimpleNamespace(row_lengths=list)
    accumulator = GradientAccumulator(
        made, SupervisedFineTuning(), empty, made._inner.trained, 0, 1, events, DistContext()
    )
    batches = [flat((9, 8)), flat((41,))]
    loss, _ = accumulator._backward_or_halve(0, [0, 1], batches, 1 / 7)
    expected, gradients_expected = gone_through(plain, batches)
    compare((loss.reshape(1), gradients(made._inner._model)), (expected.sum().reshape(1), gradients_expected))
    assert not refusals and not made._replays and accumulator.micro_batch == 1
    assert "memory ran out" in said.warnings[-1]


def test_memory_that_runs_out_without_graphs_is_for_the_caller_to_halve(monkeypatch):
    made, plain = captured(Recorder()), engine()
    refusing(monkeypatch, made, [1])
    with pytest.raises(torch.OutOfMemoryError):
        made.backward(flat((40,) * 8), 1.0)
    compare(gone_through(made, BATCHES[0]), gone_through(plain, BATCHES[0]))
    # The shapes are those of the smaller batches.
    assert max(made._computed).tokens == 64 and made._replays


def test_an_evaluation_frees_the_memory_of_graphs(monkeypatch):
    made, plain = captured(Recorder()), engine()
    gone_through(made, BATCHES[0])
    usual, refusals = FastEngine.loss, [1]

    def short(self, batch):
        if refusals:
            refusals.pop()
            raise torch.OutOfMemoryError("CUDA out of memory")
        return usual(self, batch)

    monkeypatch.setattr(FastEngine, "loss", short)
    assert apart(made.loss(BATCHES[0][0]), plain.loss(BATCHES[0][0])) < WITHIN
    assert not made._replays
    gone_through(made, BATCHES[0])
    assert made._replays
    step_graph.make_room(made)
    assert not made._replays


def test_few_shapes_for_many_batches():
    draw = random.Random(5)
    shapes = Shapes(longest=512)
    full = flat((512,) * 8)
    assert shapes.of(full).tokens == 4096
    found = set()
    for _ in range(200):
        # Packed rows: nearly full, with documents of any length.
        lengths = []
        while sum(lengths) < 3700:
            lengths.append(draw.randint(5, 390))
        batch = flat(tuple(lengths), draw.randint(0, 99))
        shape = shapes.of(batch)
        assert shape is not None and shape.holds(batch)
        padded = shape.pad(batch)
        assert len(padded.ids) == sum(padded.lengths) == shape.tokens
        assert len(padded.lengths) == shape.documents and max(padded.lengths) <= 512
        assert len(padded.sources) == len(padded.targets) == shape.supervised
        assert len(set(padded.sources[len(batch.sources) :].tolist())) == shape.supervised - len(
            batch.sources
        )
        found.add(shape)
    # The longest rows may be single documents, the others of many.
    assert len(found) <= 3


def test_shapes_end_at_some_number():
    shapes, said = Shapes(longest=100), Said()
    for documents in (64, 48, 32, 16):
        for share in (0, 1):
            batch = flat((100,) * documents)
            batch.labels.copy_(batch.ids if share else -100)
            assert shapes.of(batch) is not None
    assert len(shapes._known) == MOST_SHAPES
    # A larger shape serves where there is one.
    assert shapes.of(flat((100,) * 2)) == min(shapes._known)
    assert shapes.of(flat((100,) * 80)) is None and shapes.of(flat((101,))) is None
    made = captured(Recorder(), longest=16, said=said)
    long = [flat((17,)), flat((30, 2))]
    compare(gone_through(made, long), gone_through(engine(), long))
    (warning,) = said.warnings
    assert "17 tokens" in warning and made.uncaptured == 2


def test_shared_beginnings_are_the_reason_that_is_said():
    said = Said()
    made, batch = captured(Recorder(), said=said), replace(flat((9, 8)), shared=(0, 4))
    made._inner.backward = lambda *_: None
    made.backward(batch, 1.0)
    (warning,) = said.warnings
    assert "share_prefixes" in warning and "shapes" not in warning


def test_where_nothing_can_be_captured(monkeypatch, tmp_path):
    """The reason is said, and the run continues as it is."""
    machine = SimpleNamespace(cuda_graphs=Graphs(asked=True), paths=SimpleNamespace(home=str(tmp_path)))
    card, fast = torch.device("cuda", 0), engine()
    plain = PlainEngine(torch.nn.Module(), SupervisedFineTuning(), Place(), 0, CPU)

    def why(made=fast, device=card, alone=True):
        said = Said()
        assert step_graph.captured(machine, made, alone, 40, device, Events([said])) is made
        (warning,) = said.warnings
        return warning

    assert "NVIDIA GPU" in why(device=CPU)
    assert "several processes" in why(alone=False)
    assert "plain path" in why(plain)
    assert "walks documents one by one" in why()
    monkeypatch.setattr(step_graph, "_ATTENTION", (fast.decoder.kernels.choices["attention"].chosen,))
    fast.decoder.neftune = 5.0
    assert "NEFTune" in why()
    fast.decoder.neftune = 0.0
    fast.decoder.body.rotary_emb.rope_type = "dynamic"
    assert "rotary positions" in why()
    fast.decoder.body.rotary_emb.rope_type = "default"
    with_dora = lora(dora=True)
    made = FastDecoder(with_dora, Place())
    assert "only LoRA" in why(FastEngine(with_dora, made, SupervisedFineTuning(), CPU, None))
    assert step_graph.obstacle(fast, card) is None
    # Nobody asks for it: it has to be proved, for this format.
    machine.cuda_graphs = Graphs(asked=False)
    monkeypatch.setattr(verdicts, "device_name", lambda _: "a card")
    assert "expert-cli doctor --prove" in why()
    machine.cuda_graphs = None
    assert step_graph.captured(machine, fast, True, 40, card, Events([])) is fast


def test_a_run_without_a_gpu_says_so_and_continues(tmp_path, monkeypatch):
    put_data(monkeypatch)
    run = train(tmp_path, {"machine.cuda_graphs": {"asked": True}})
    (warning,) = [body for body in run.of("warning") if body.code == step_graph.NOT_CAPTURED]
    assert "NVIDIA GPU" in warning.message and "cuda_graphs" not in run.applied and run.losses
