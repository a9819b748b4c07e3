"""The engines, the GGUF files that one of them is given, and which shelves can be served."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from export.test_gguf import tokenizer
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from expert_worker import cuda_build
from expert_worker.adapter import EXPERT
from expert_worker.base.embedded import HUB_ID
from expert_worker.endpoint import serve as serving
from expert_worker.endpoint.__main__ import parser
from expert_worker.endpoint.engine import PromptRefused, Question, Sampling
from expert_worker.endpoint.gguf_cache import adapter_gguf, base_gguf
from expert_worker.endpoint.listener import listen
from expert_worker.endpoint.llama import LlamaEngine
from expert_worker.endpoint.peft_engine import PeftEngine
from expert_worker.endpoint.ready import Served, announce
from expert_worker.endpoint.server import Limits, Server
from expert_worker.endpoint.shelf import models, read_experts
from expert_worker.errors import BadInput, ExpertError, Failed
from expert_worker.evaluate.subject import open_subject
from expert_worker.events import Events
from expert_worker.generate.stage import reply
from expert_worker.plan import RopeScaling
from expert_worker.run_record.digests import RUN

from .tiny_shelf import ANSWER_TOKENS, scored, tiny_base, tiny_expert, tiny_plan

GREEDY = Sampling(0.0, 1.0, 0, 0.0, 1.0, None)
PROMPTS = ("Say one", "Say two")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_base(tmp_path_factory.mktemp("engines") / "base")


@pytest.fixture(scope="module")
def ash(base: Path) -> Path:
    return tiny_expert(base, base.parent / "ash", "ash", 1)


def question(model: Any, prompt: str, **changes: Any) -> Question:
    ids = model.prompts.prompt({"messages": [{"role": "user", "content": prompt}]}).ids
    fields = {"most_tokens": ANSWER_TOKENS, "sampling": GREEDY, "stops": model.stops, **changes}
    return Question(adapter=model.adapter, prompt=ids, ends=model.ends, **fields)


async def whole(engine: Any, asked: Question) -> tuple[str, str | None, int]:
    pieces = [piece async for piece in engine.answer(asked)]
    return "".join(piece.text for piece in pieces), pieces[-1].finish, pieces[-1].tokens


def test_transformers_answers_as_generate_does_for_kinds_that_llama_cpp_refuses(
    base: Path, ash: Path, tmp_path: Path
) -> None:
    finals = [ash, tiny_expert(base, tmp_path / "dora", "dora", 2, use_dora=True)]
    experts = read_experts(finals)
    served = models(experts, tokenizer(), base)
    engine = PeftEngine(base, finals, tokenizer(), 512)

    async def ask() -> dict[tuple[str, str], tuple[str, str | None, int]]:
        await engine.start()
        wanted = [(name, prompt) for prompt in PROMPTS for name in served]
        # All at once; one is left in the middle.
        left = engine.answer(question(served["ash"], "leave", most_tokens=400))
        await anext(left)
        await left.aclose()
        found = await asyncio.gather(*(whole(engine, question(served[n], prompt)) for n, prompt in wanted))
        await engine.stop()
        return dict(zip(wanted, found, strict=True))

    found = asyncio.run(asyncio.wait_for(ask(), 60))
    for name, final in zip(("ash", "dora"), finals, strict=True):
        events = Events.in_memory("generate")[0]
        plan = tiny_plan(base, tmp_path, name)
        subject = open_subject(plan, str(final), events)
        for prompt in PROMPTS:
            answer = reply(plan.recipe, events, subject, prompt)
            assert (found[name, prompt][0], found["base", prompt][0]) == (answer.adapter, answer.base)
    assert len({found[name, PROMPTS[0]] for name in served}) == 3
    assert all(finish in ("stop", "length") and tokens > 0 for _, finish, tokens in found.values())


def test_every_model_on_a_base_stored_in_8_bits_answers_as_alone(tmp_path: Path) -> None:
    """Whichever is asked first."""
    plain = tiny_base(tmp_path / "plain")
    finals = [tiny_expert(plain, tmp_path / name, name, seed) for seed, name in enumerate(("ash", "birch"))]
    stored = tmp_path / "stored"
    in_8_bits = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=["lm_head"])
    AutoModelForCausalLM.from_pretrained(plain, quantization_config=in_8_bits).save_pretrained(stored)
    tokenizer().save_pretrained(stored)

    ids = torch.tensor([[5, 6, 7, 8]])
    models = PeftEngine(stored, finals, tokenizer(), 512)._load()
    alone = [PeftEngine(stored, [final], tokenizer(), 512)._load()[1] for final in finals]
    with torch.no_grad():
        for together, other in zip(reversed(models[1:]), reversed(alone), strict=True):
            assert torch.equal(together(ids).logits, other(ids).logits)
        assert not torch.equal(models[0](ids).logits, models[1](ids).logits)


@pytest.mark.parametrize(
    ("available", "has_code", "device"), [(False, True, "cpu"), (True, True, "cuda"), (True, False, "cpu")]
)
def test_a_gpu_that_torch_has_no_code_for_does_not_answer(
    available: bool, has_code: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla K80")
    monkeypatch.setattr(cuda_build, "has_code_for", lambda _: has_code)
    lines: list[str] = []
    assert serving._device_of_torch(lines.append) == device
    assert [("Tesla K80" in line, "the CPU answers" in line) for line in lines] == (
        [] if has_code else [(True, True)]
    )


@pytest.mark.parametrize(
    ("config", "context"),
    [
        ({"max_position_embeddings": 512}, 512),
        ({"n_positions": 64}, 64),
        ({"max_position_embeddings": None, "max_seq_len": 64}, 64),
        ({"text_config": {"max_position_embeddings": 64}}, 64),
        ({"seq_length": 9000}, 4096),
        ({"model_type": "bloom"}, 4096),
    ],
)
def test_the_context_is_at_most_what_the_base_was_made_for(
    config: dict[str, Any], context: int, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    options = parser().parse_args(["final", "--home", "home"])
    inputs = serving._EngineInputs(options, [], tmp_path, None, io.BytesIO(), print)
    assert inputs.context == context


LINEAR = {"kind": "linear", "factor": 8.0}
LONGROPE = {"kind": "longrope", "factor": 2.0, "short_factor": [1.5] * 8, "long_factor": [2.5] * 8}


@pytest.mark.parametrize("scaling", [LINEAR, {"kind": "dynamic", "factor": 4.0}, LONGROPE])
def test_the_rotary_scaling_of_the_training_holds_in_answers_and_context(
    scaling: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    changes = {"recipe.base.rope_scaling": scaling}
    final = tiny_expert(base, tmp_path / "ash", "ash", 1, changes=changes)
    experts = read_experts([final])
    assert experts[0].record.base.rope_scaling is not None
    words = [str(final), "--home", str(tmp_path), "--base-folder", str(base), "--context", "100000"]
    options = parser().parse_args(words)
    given = serving._EngineInputs(options, experts, base, tokenizer(), io.BytesIO(), lines.append)
    own = json.loads((base / "config.json").read_text())["max_position_embeddings"]
    assert given.context == own * scaling["factor"]
    engine = serving._engine(given)
    assert isinstance(engine, PeftEngine) and any("rotary" in line for line in lines)
    served = models(experts, tokenizer(), base)
    # Dynamic scaling of a long prompt does not remember the longer one before.
    asked = [PROMPTS[0], "x" * (3 * own // 2), "x" * (5 * own // 4)]

    async def ask() -> list[str]:
        await engine.start()
        found = [(await whole(engine, question(served["ash"], prompt)))[0] for prompt in asked]
        await engine.stop()
        return found

    plan = tiny_plan(base, tmp_path, "ash", **changes)
    events = Events.in_memory("generate")[0]
    subject = open_subject(plan, str(final), events)
    wanted = [reply(plan.recipe, events, subject, prompt).adapter for prompt in asked]
    assert asyncio.run(asyncio.wait_for(ask(), 60)) == wanted


def test_a_token_without_a_vector_is_refused_and_the_next_request_is_answered(base: Path, ash: Path) -> None:
    engine = PeftEngine(base, [ash], tokenizer(), 512)
    served = models(read_experts([ash]), tokenizer(), base)["ash"]
    good = question(served, PROMPTS[0])

    async def ask() -> tuple[str, str | None, int]:
        await engine.start()
        with pytest.raises(PromptRefused, match="token vectors"):
            await whole(engine, replace(good, prompt=[*good.prompt, 10**6]))
        found = await whole(engine, good)
        await engine.stop()
        return found

    assert asyncio.run(asyncio.wait_for(ask(), 60))[2] > 0


def test_transformers_takes_the_threads_and_answers_one_request_at_a_time(
    base: Path, ash: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests that wait in the engine are counted neither by --queue nor by a metric."""
    threads, served = torch.get_num_threads(), list[Server]()

    async def run(server: Server, *_: Any) -> int:
        served.append(server)
        await server.engine.stop()
        return 0

    monkeypatch.setattr(serving, "_run", run)
    words = [str(ash), "--home", str(tmp_path), "--base-folder", str(base), "--engine", "transformers"]
    options = parser().parse_args([*words, "--parallel", "8", "--threads", str(threads + 2)])
    try:
        with listen("127.0.0.1", 0) as listener:
            asyncio.run(serving.serve(options, listener, None, io.BytesIO(), print))
        assert torch.get_num_threads() == threads + 2
    finally:
        torch.set_num_threads(threads)
    assert served[0].limits.parallel == 1


def test_experts_of_different_rotary_scalings_are_refused(base: Path, ash: Path, tmp_path: Path) -> None:
    changes = {"recipe.base.rope_scaling": LINEAR}
    birch = tiny_expert(base, tmp_path / "birch", "birch", 2, changes=changes)
    with pytest.raises(BadInput, match="ash and birch were trained with different rope_scaling"):
        read_experts([ash, birch])


def test_the_scaling_of_an_older_expert_is_that_of_its_run(base: Path, tmp_path: Path) -> None:
    """Its `expert.json` has none, until `evaluate` writes there."""
    changes = {"recipe.base.rope_scaling": LONGROPE}
    new = tiny_expert(base, tmp_path / "ash", "ash", 1, changes=changes)
    old = tiny_expert(base, tmp_path / "birch", "birch", 2, changes=changes)
    record = json.loads((old / EXPERT).read_text())
    scaling = record["base"].pop("rope_scaling")
    (old / EXPERT).write_text(json.dumps(record))
    given = dict.fromkeys(RopeScaling.model_fields) | LONGROPE
    run = {"recipe_digest": "sha256:other", "recipe": {"base": {"rope_scaling": given}}}
    (old.parent / RUN).write_text(json.dumps(run))
    with pytest.raises(BadInput, match="different rope_scaling"):
        read_experts([new, old])
    (old.parent / RUN).write_text(json.dumps({**run, "recipe_digest": record["recipe_digest"]}))
    one, two = read_experts([new, old])
    assert one.record.base == two.record.base and two.record.base.rope_scaling is not None
    scored(old, correct=30)
    assert json.loads((old / EXPERT).read_text())["base"]["rope_scaling"] == scaling


def test_files_for_llama_cpp_are_made_once_and_only_of_the_right_base(
    base: Path, ash: Path, tmp_path: Path
) -> None:
    (expert,) = read_experts([ash])
    said: list[str] = []

    def make() -> list[Path]:
        made = base_gguf(tmp_path, base, [expert], said.append)
        return [made.path, adapter_gguf(tmp_path, base, made, expert, said.append)]

    first = make()
    assert [line.split()[0] for line in said] == ["Verifying", "Converting", "Converting"]
    said.clear()
    assert make() == first and [line.split()[0] for line in said] == ["Verifying"]
    kept = sorted((tmp_path / "gguf").glob("*.gguf"))
    assert kept == sorted(first)
    for path in kept:
        about = json.loads(path.with_suffix(".json").read_text())
        assert about["experts"] == [str(ash)] and about["bytes"] == path.stat().st_size
        assert about["base"]["model.safetensors"] == expert.record.base.files["model.safetensors"].sha256
        assert ("adapter" in about) == path.name.startswith("adapter")
    copied = {"consolidated.safetensors": expert.record.base.files["model.safetensors"]}
    before = expert.record.base.model_copy(update={"files": {**expert.record.base.files, **copied}})
    of_before = replace(expert, record=expert.record.model_copy(update={"base": before}))
    assert base_gguf(tmp_path, base, [of_before], said.append).path in first
    other = shutil.copytree(base, tmp_path / "other")
    weights = other / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x07")
    with pytest.raises(BadInput, match=r"model\.safetensors is not the file that ash was trained on"):
        base_gguf(tmp_path, other, [expert], said.append)
    retrained = tiny_expert(base, tmp_path / "again", "ash", 9)
    (changed,) = read_experts([retrained])
    made = base_gguf(tmp_path, base, [changed], said.append)
    assert made.path in first and adapter_gguf(tmp_path, base, made, changed, said.append) not in first
    about = json.loads(made.path.with_suffix(".json").read_text())
    assert about["experts"] == sorted([str(ash), str(retrained)])


def test_a_file_for_llama_cpp_that_was_cut_is_made_again(base: Path, ash: Path, tmp_path: Path) -> None:
    (expert,) = read_experts([ash])
    said: list[str] = []
    path = base_gguf(tmp_path, base, [expert], said.append).path
    content = path.read_bytes()
    path.write_bytes(content[:-1000])
    said.clear()
    assert base_gguf(tmp_path, base, [expert], said.append).path == path
    assert [line.split()[0] for line in said] == ["Verifying", "Converting"]
    assert path.read_bytes() == content and not list(path.parent.glob("*.partial"))
    # Of a version that noted no size.
    note = path.with_suffix(".json")
    about = json.loads(note.read_text())
    note.write_text(json.dumps({name: about[name] for name in ("experts", "base")}))
    base_gguf(tmp_path, base, [expert], said.append)
    assert json.loads(note.read_text()) == about and path.read_bytes() == content


def test_a_quantized_base_is_another_file_with_the_same_adapters(
    base: Path, ash: Path, tmp_path: Path
) -> None:
    (expert,) = read_experts([ash])
    plain, small = (base_gguf(tmp_path, base, [expert], lambda _: None, kind) for kind in (None, "q8_0"))
    assert small.path != plain.path and small.path.stat().st_size < plain.path.stat().st_size
    adapters = {adapter_gguf(tmp_path, base, made, expert, lambda _: None) for made in (plain, small)}
    assert len(adapters) == 1


def test_an_engine_that_aborts_while_it_starts_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken" / "xllamacpp"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("import os, sys\nprint('no room', file=sys.stderr)\nos.abort()\n")
    monkeypatch.syspath_prepend(str(broken.parent))
    with (tmp_path / "log").open("w+b") as log:
        engine = LlamaEngine(tmp_path / "none.gguf", [], 1, 64, 1, {}, (), str, log)
        with pytest.raises(Failed, match=r"status -6\): no room"):
            asyncio.run(engine.start())
        assert not engine.ready


def changed(final: Path, target: Path, file: str, **values: Any) -> Path:
    shutil.copytree(final, target)
    document = json.loads((target / file).read_text())
    (target / file).write_text(json.dumps({**document, **values}))
    return target


def test_shelves_that_cannot_be_served_are_refused(base: Path, ash: Path, tmp_path: Path) -> None:
    other = tiny_base(tmp_path / "other")
    (other / "config.json").write_text((other / "config.json").read_text() + "\n")
    birch = tiny_expert(other, tmp_path / "birch", "birch", 2)
    bare = shutil.copytree(ash, tmp_path / "bare")
    (bare / "expert.json").unlink()
    settings = "generation_config.json"
    for finals, message in (
        ([ash, birch], r"ash and birch were trained on different bases: config\.json differ"),
        ([changed(ash, tmp_path / "base-name", "expert.json", name="base")], "name of another model"),
        ([changed(ash, tmp_path / "text", "expert.json", base="x")], r"Cannot read .*expert\.json"),
        ([changed(ash, tmp_path / "tokens", settings, max_new_tokens="x")], rf"Cannot read .*{settings}"),
        ([bare], r"Cannot read .*expert\.json: No such file"),
        ([tmp_path], "is not an adapter"),
    ):
        with pytest.raises(ExpertError, match=message):
            read_experts(finals)


def test_experts_on_one_embedded_base_of_two_versions_of_transformers_are_served(
    base: Path, ash: Path, tmp_path: Path
) -> None:
    def trained(name: str, weights: str, config: str) -> Path:
        final = shutil.copytree(ash, tmp_path / name)
        document = json.loads((final / EXPERT).read_text())
        files = {"model.safetensors": weights, "config.json": config, "tokenizer.json": "c"}
        digests = {file: {"sha256": digest * 64, "bytes": 1} for file, digest in files.items()}
        document["base"] |= {"name": HUB_ID, "files": digests}
        (final / EXPERT).write_text(json.dumps({**document, "name": name}))
        return final

    one = trained("one", "a", "b")
    assert len(read_experts([one, trained("two", "a", "d")])) == 2
    with pytest.raises(BadInput, match=r"different bases: config\.json, model\.safetensors differ"):
        read_experts([one, trained("three", "e", "f")])


def test_the_table_says_what_was_measured(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A partial evaluation, none, and one whose base had examples in its prompt, as `base` here has not."""
    finals = [tiny_expert(base, tmp_path / name, name, 1) for name in ("ash", "birch", "cedar", "elm")]
    share = {"correct": 30, "total": 40, "accuracy": 0.75}
    scored(finals[0], correct=30)
    found: tuple[dict[str, Any], ...] = (
        {"rows": 40, "adapter": share, "base": {**share, "prompt": {"shots": 3, "tried": {}}}},
        {"rows": 4, "other_rows": "few", "adapter": share, "base": share},
        {"rows": 40, "adapter": share, "base": share},
    )
    for final, document in zip(finals, found, strict=False):
        (final.parent / "evaluation.json").write_text(json.dumps(document))
    served = models(read_experts(finals), tokenizer(), base)
    engine = PeftEngine(base, finals, tokenizer(), 512)
    server = Server(engine, served, Limits(1, 1, 64, 1.0))
    announce(Served("127.0.0.1", 8000, server, as_json=False), lambda _: None)
    lines = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:6] == [
        ["ash", "75.0%", "75.0% with 3 examples", "40"],
        ["birch", "measured on 4 rows only"],
        ["cedar", "measured with other settings only"],
        ["elm", "not measured"],
        ["base"],
    ]
    one, two, *_ = server.model_documents()
    assert one["score"]["base_examples"] == 3 and two["partly_measured"] == "on 4 rows"
    # Another evaluation than the one that gave `expert.json` its score says nothing of that one's base.
    other = {"rows": 40, "base": {**share, "correct": 29, "prompt": {"shots": 2, "tried": {}}}}
    (finals[0].parent / "evaluation.json").write_text(json.dumps(other))
    assert read_experts(finals[:1])[0].base_examples == 0
    # A record of this version says it itself.
    record = json.loads((finals[0] / "expert.json").read_text())
    record["score"]["base_examples"] = 3
    (finals[0] / "expert.json").write_text(json.dumps(record))
    assert read_experts(finals[:1])[0].base_examples == 3


def test_the_base_has_the_experts_template_where_they_share_it(base: Path, ash: Path, tmp_path: Path) -> None:
    shouting = shutil.copytree(ash, tmp_path / "shouting")
    (shouting / "chat_template.jinja").write_text("{{ messages[0].content | upper }}")
    (expert,), (loud,) = read_experts([ash]), read_experts([shouting])
    shared = models([expert], tokenizer(), base)
    assert shared["base"].prompts.template == expert.template != tokenizer().chat_template
    apart = models([expert, loud], tokenizer(), base)
    assert apart["base"].prompts.template == tokenizer().chat_template
    assert apart["base"].answer_tokens == ANSWER_TOKENS and set(expert.generation.end_ids) <= set(
        apart["base"].ends
    )
