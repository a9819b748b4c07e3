"""Answers in a form: an expert's own grammar, and `response_format` of a request."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from export.test_gguf import tokenizer
from schema_grammar.accepts import SCHEMAS, refused_at

from expert_worker.endpoint import formats, llama
from expert_worker.endpoint.bodies import ChatBody, parse
from expert_worker.endpoint.engine import Engine, EngineFailed, GrammarRefused, Question, Sampling
from expert_worker.endpoint.gguf_cache import adapter_gguf, base_gguf
from expert_worker.endpoint.llama import LlamaEngine
from expert_worker.endpoint.peft_engine import PeftEngine
from expert_worker.endpoint.server import Server
from expert_worker.endpoint.shelf import models, read_experts
from expert_worker.errors import BadInput
from expert_worker.evaluate.subject import open_subject
from expert_worker.events import Events
from expert_worker.generate.stage import reply
from expert_worker.plan import Grammar
from expert_worker.run_record.expert import replace_grammar
from expert_worker.schema_grammar import OF_PROMPT
from expert_worker.schema_grammar.rules import Rules

from .test_engines import GREEDY, question, whole
from .test_server import CHAT, FakeEngine, server, within
from .tiny_shelf import tiny_base, tiny_expert, tiny_plan

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["kind", "count"],
    "additionalProperties": False,
}
WORDS = Grammar(kind="gbnf", name="grammar.gbnf", text='root ::= ("yes" | "no") (" " "maybe")?')
QUERY = Grammar(kind="sql", name="sql", text="sql")
FORM = Grammar(kind="json_schema", name="grammar.json", text=json.dumps(SCHEMA))
# A special token that does not end answers of the base's file.
SPARE = 1
WARM = Sampling(1.0, 1.0, 0, 0.0, 1.0, 7)


def form(document: Any, **more: Any) -> dict[str, Any]:
    named = {"name": "answer", "schema": document, **more}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


@pytest.fixture(scope="module")
def ash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    final = tiny_expert(tiny_base(folder / "base"), folder / "ash", "ash", 1)
    replace_grammar(final, WORDS)
    return final


def test_a_grammar_with_the_line_ends_of_windows_is_the_same_grammar(ash: Path, tmp_path: Path) -> None:
    final = tmp_path / "final"
    shutil.copytree(ash, final)
    grammar = Grammar(kind="gbnf", name="grammar.gbnf", text='root ::= ("yes" |\r\n "no")\r\n')
    replace_grammar(final, grammar)
    (expert,) = read_experts([final])
    assert expert.grammar == grammar


def text_of(prompt: Sequence[int]) -> str:
    return str(tokenizer().decode(list(prompt), skip_special_tokens=True))


def both(asked: Sequence[Question], final: Path, folder: Path) -> list[list[tuple[str, str | None, int]]]:
    """Answers of transformers, then of llama.cpp."""

    async def ask(one: Engine) -> list[tuple[str, str | None, int]]:
        await one.start()
        answers = [await whole(one, question) for question in asked]
        await one.stop()
        return answers

    found = []
    for name in ("transformers", "llama.cpp"):
        with engine(name, final, folder) as one:
            found.append(asyncio.run(asyncio.wait_for(ask(one), 120)))
    return found


@contextmanager
def engine(name: str, final: Path, folder: Path) -> Iterator[Engine]:
    base = final.parents[1] / "base"
    if name == "transformers":
        yield PeftEngine(base, [final], tokenizer(), 512)
        return
    (expert,) = read_experts([final])
    made = base_gguf(folder, base, [expert], print)
    adapters = [adapter_gguf(folder, base, made, expert, print)]
    with (folder / "log").open("w+b") as log:
        texts = {end: str(tokenizer().decode([end])) for end in (*expert.generation.end_ids, SPARE)}
        added = tokenizer().get_added_vocab()
        yield LlamaEngine(made.path, adapters, 2, 512, 1, texts, added, text_of, log)


@pytest.mark.parametrize("name", ["transformers", "llama.cpp"])
def test_each_engine_keeps_to_a_grammar_and_survives_what_it_cannot_use(
    name: str, ash: Path, tmp_path: Path
) -> None:
    (expert,) = read_experts([ash])
    assert expert.grammar == WORDS
    model = models([expert], tokenizer(), ash.parents[1] / "base")["ash"]
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(20):
        deep = {"type": "array", "items": deep, "minItems": 2, "maxItems": 900}
    hostile = [
        {"type": "string", "pattern": "("},
        {"$ref": "#/nowhere"},
        {"type": "string", "pattern": "^((((a{1,900}){1,900}){1,900}){1,900}){1,900}$"},
        deep,
    ]

    async def ask(one: Engine) -> None:
        await one.start()
        for sampling in (WARM, Sampling(0.0, 1.0, 0, 0.0, 1.0, None)):
            fields = {"most_tokens": 200, "stops": (), "sampling": sampling}
            texts = [
                await whole(one, question(model, prompt, grammar=grammar, **fields))
                for prompt in ("Say one", "Say two")
                for grammar in (WORDS, FORM, None)
            ]
            for text, finish, _ in (*texts[0::3], *texts[1::3]):
                assert finish == "stop", texts
                if text.startswith("{"):
                    assert json.loads(text)["kind"] in ("a", "b")
                else:
                    assert re.fullmatch("(yes|no)( maybe)?", text)
            assert not any(re.match("yes|no|{", text) for text, _, _ in texts[2::3])
        cut = await whole(one, question(model, "Say one", grammar=FORM, most_tokens=3, stops=()))
        assert cut[1] == "length"
        for schema in hostile:
            grammar = Grammar(kind="json_schema", name="response_format", text=json.dumps(schema))
            asked = question(model, "Say one", grammar=grammar, most_tokens=3, stops=())
            try:
                await whole(one, asked)
            except GrammarRefused as refused:
                assert str(refused)
        assert one.ready
        assert (await whole(one, question(model, "Say one", grammar=WORDS, stops=())))[0]
        await one.stop()

    with engine(name, ash, tmp_path) as one:
        asyncio.run(asyncio.wait_for(ask(one), 120))


UNKNOWN: dict[str, dict[str, Any]] = {
    'Unimplemented keys: ["uniqueItems"]': {
        "type": "array",
        "items": {"type": "integer"},
        "uniqueItems": True,
    },
    "Unknown format: phone": {"type": "string", "format": "phone"},
    'Unimplemented keys: ["not"]': {"not": {"type": "string"}},
    'Unimplemented keys: ["if", "then"]': {"type": "object", "if": {}, "then": {}},
    'Unimplemented keys: ["contains"]': {"type": "array", "contains": {"const": 1}},
    "Invalid type: strin": {"type": "strin"},
    "Pointer '/$defs/X' does not exist": {"$ref": "#/$defs/X"},
    "it leads to no answer": {"$ref": "#"},
    "/multipleOf (9999991) has more than 10000 remainders": {"type": "integer", "multipleOf": 9_999_991},
}


@pytest.mark.parametrize("name", ["transformers", "llama.cpp"])
def test_both_engines_refuse_a_schema_that_they_cannot_use_for_one_reason(
    name: str, ash: Path, tmp_path: Path
) -> None:
    (expert,) = read_experts([ash])
    model = models([expert], tokenizer(), ash.parents[1] / "base")["ash"]

    async def ask(one: Engine) -> None:
        await one.start()
        for reason, schema in UNKNOWN.items():
            grammar = Grammar(kind="json_schema", name="response_format", text=json.dumps(schema))
            with pytest.raises(GrammarRefused) as refused:
                await whole(one, question(model, "Say one", grammar=grammar, most_tokens=3, stops=()))
            assert str(refused.value) == f"The grammar response_format cannot be used: {reason}"
        await one.stop()

    with engine(name, ash, tmp_path) as one:
        asyncio.run(asyncio.wait_for(ask(one), 120))


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_both_engines_write_the_same_query_with_the_names_of_its_prompt(
    kind: Any, ash: Path, tmp_path: Path
) -> None:
    (expert,) = read_experts([ash])
    model = models([expert], tokenizer(), ash.parents[1] / "base")["ash"]
    grammar = Grammar(kind=kind, name=kind, text=kind)
    asked = [
        question(model, prompt, grammar=grammar, most_tokens=most, stops=(), sampling=sampling)
        for prompt in SCHEMAS[kind]
        for most, sampling in ((4, GREEDY), (60, GREEDY), (90, WARM))
    ]
    found = both(asked, ash, tmp_path)
    for answers in found:
        for one, (text, finish, _) in zip(asked, answers, strict=True):
            rest = refused_at(OF_PROMPT[kind](text_of(one.prompt)), text)
            assert text and rest in ((None,) if finish == "stop" else (None, "")), text
    for place in (0, 1, 3, 4):
        assert found[0][place][:2] == found[1][place][:2]


def test_an_expert_with_a_grammar_answers_as_generate_does(tmp_path: Path) -> None:
    base = tiny_base(tmp_path / "base")
    changes = {"recipe.decoding.grammar": QUERY.model_dump(), "recipe.decoding.max_new_tokens": 60}
    final = tiny_expert(base, tmp_path / "ash", "ash", 1, changes=changes)
    model = models(read_experts([final]), tokenizer(), base)["ash"]
    assert model.grammar == QUERY
    asked = [
        question(model, prompt, grammar=model.grammar, most_tokens=model.answer_tokens)
        for prompt in SCHEMAS["sql"]
    ]
    plan, events = tiny_plan(base, tmp_path, "ash", **changes), Events.in_memory("generate")[0]
    subject = open_subject(plan, str(final), events)
    wanted = [reply(plan.recipe, events, subject, prompt).adapter for prompt in SCHEMAS["sql"]]
    assert all(re.match("select|with", answer or "", re.IGNORECASE) for answer in wanted)
    for answers in both(asked, final, tmp_path):
        assert [text for text, _, _ in answers] == wanted


def test_an_answer_in_a_grammar_ends_at_the_expert_s_own_end(
    ash: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base's file names one end of an answer; an expert may have learnt another."""
    (expert,) = read_experts([ash])
    model = models([expert], tokenizer(), ash.parents[1] / "base")["ash"]
    few = Rules({"root": '("a" | "b"){1,300}'}, frozenset())
    monkeypatch.setitem(cast(dict[str, Any], OF_PROMPT), "sql", lambda _: few)
    asked = [
        replace(
            question(model, prompt, grammar=QUERY, most_tokens=90, stops=(), sampling=sampling), ends=ends
        )
        for ends in ([SPARE], model.ends, [*model.ends, SPARE])
        for prompt, sampling in (("Say one", GREEDY), ("Say two", GREEDY), ("Say one", WARM))
    ]
    found = both(asked, ash, tmp_path)
    for one, transformers, llama_cpp in zip(asked, *found, strict=True):
        assert re.fullmatch("[ab]+", llama_cpp[0])
        if one.sampling == GREEDY:
            assert transformers[:2] == llama_cpp[:2]
        else:
            assert llama_cpp[1] == "stop"


def test_an_answer_ends_at_a_special_token_of_the_request(ash: Path, tmp_path: Path) -> None:
    (expert,) = read_experts([ash])
    model = models([expert], tokenizer(), ash.parents[1] / "base")["ash"]
    # The base writes the token in the middle of this answer.
    asked = [question(model, "Say 35", most_tokens=30, stops=stops) for stops in ((), ("<|im_start|>",))]
    for going, ended in both(asked, ash, tmp_path):
        assert going[1] == "length" and ended[1] == "stop"
        assert ended[0] and going[0].startswith(ended[0]) and ended[2] < going[2]


def test_an_answer_that_llama_cpp_does_not_constrain_is_an_error(
    ash: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (expert,) = read_experts([ash])
    model = models([expert], tokenizer(), ash.parents[1] / "base")["ash"]
    monkeypatch.setattr(llama, "_constraint", lambda *_: {})

    async def ask(one: Engine) -> None:
        await one.start()
        dropped = "an answer that its grammar does not allow; serve with --engine transformers"
        with pytest.raises(GrammarRefused, match=dropped):
            await whole(one, question(model, SCHEMAS["sql"][0], grammar=QUERY, stops=()))
        with pytest.raises(GrammarRefused, match=dropped):
            await whole(one, question(model, "Say one", grammar=FORM, stops=()))
        large = "".join(
            f"CREATE TABLE thing_{table} ("
            + ", ".join(f"col_{table}_{column} TEXT" for column in range(7))
            + f", other_id INTEGER REFERENCES thing_{(table * 7 + 1) % 80}(id));\n"
            for table in range(80)
        )
        with pytest.raises(GrammarRefused, match="The grammar sql cannot be used: "):
            await whole(one, question(model, large, grammar=QUERY))
        await one.stop()

    with engine("llama.cpp", ash, tmp_path) as one:
        asyncio.run(asyncio.wait_for(ask(one), 120))


def test_an_answer_that_leaves_its_grammar_in_the_middle_may_succeed_again() -> None:
    kept = llama._Kept(FORM, "", ())
    kept.add('{"kind": ')
    with pytest.raises(EngineFailed, match=r"an answer that its grammar does not allow$") as failed:
        kept.add("Yes")
    assert not isinstance(failed.value, GrammarRefused)


def test_both_engines_write_an_address_where_a_schema_asks_for_one(ash: Path, tmp_path: Path) -> None:
    (expert,) = read_experts([ash])
    model = models([expert], tokenizer(), ash.parents[1] / "base")["ash"]
    address = {"type": "string", "format": "uri", "maxLength": 12}
    nested = {"$ref": "#/$defs/format"}
    object_of = {"properties": {"enum": nested}, "required": ["enum"], "additionalProperties": False}
    whole_number = {"type": "integer", "minimum": 0, "maximum": 9}
    schemas = [
        address,
        {**address, "pattern": "^ftp"},
        {"type": "object", **object_of, "$defs": {"format": address}},
        {"anyOf": [{"const": {"format": "uri"}}, whole_number]},
    ]
    asked = [
        question(
            model,
            "Say one",
            grammar=Grammar(kind="json_schema", name="grammar.json", text=json.dumps(schema)),
            most_tokens=90,
            stops=(),
            sampling=WARM,
        )
        for schema in schemas
    ]
    for answers in both(asked, ash, tmp_path):
        assert all(finish == "stop" for _, finish, _ in answers), answers
        plain, narrow, inner, other = (json.loads(text) for text, _, _ in answers)
        for found in (plain, narrow, inner["enum"]):
            assert re.match("[a-zA-Z][a-zA-Z0-9+.-]*:", found) and len(found) <= 12
        assert narrow.startswith("ftp")
        assert other == {"format": "uri"} or other in range(10)


def test_an_answer_in_a_form_of_the_request_has_no_other_white_space(ash: Path, tmp_path: Path) -> None:
    (expert,) = read_experts([ash])
    model = models([expert], tokenizer(), ash.parents[1] / "base")["ash"]
    lists = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 2}
    schema = {**SCHEMA, "properties": {"kind": {**lists, "maxItems": 3}, "count": {"const": {"a": [1, 2]}}}}
    schema["x-guidance"] = {"whitespace_flexible": True, "coerce_one_of": True}
    body = parse(ChatBody, json.dumps({**CHAT, **form(schema)}).encode())
    asked = [
        question(model, prompt, grammar=body.grammar, most_tokens=90, stops=(), sampling=sampling)
        for prompt, sampling in (("Say one", GREEDY), ("Say one", WARM), ("Say two", WARM))
    ]
    for answers in both(asked, ash, tmp_path):
        for text, finish, _ in answers:
            assert finish == "stop" and text == json.dumps(json.loads(text))


def test_a_grammar_of_the_prompt_has_no_file(ash: Path, tmp_path: Path) -> None:
    final = tmp_path / "final"
    shutil.copytree(ash, final)
    replace_grammar(final, QUERY)
    (expert,) = read_experts([final])
    assert expert.grammar == QUERY and not list(final.glob("grammar.*"))


def test_a_request_asks_for_a_form_in_the_words_of_openai() -> None:
    engine = FakeEngine("a")
    engine.may_go_on.set()
    refused = [
        (form({"type": "string", "minLength": 10**9}), "unsupported_schema", "minLength"),
        (form({"type": "string", "pattern": "a{1,99999999}"}), "unsupported_schema", "pattern"),
        (form({"type": "string", "pattern": "(a{1000}){1000}"}), "unsupported_schema", "through its groups"),
        (form({"enum": ["x" * 40_000]}), "unsupported_schema", "bytes"),
        (form([]), "invalid_value", "schema"),
        (form(None), "invalid_value", "schema"),
        (form({}, name="no spaces"), "invalid_value", "name"),
        ({"response_format": {"type": "json_schema"}}, "missing_field", "json_schema"),
        ({"response_format": {"type": "grammar"}}, "invalid_value", "response_format"),
        ({"response_format": {"type": "json_object", "schema": {}}}, "unsupported_field", "schema"),
    ]
    nested: Any = {}
    for _ in range(40):
        nested = {"items": nested}
    refused.append((form(nested), "unsupported_schema", "deeper"))

    async def test(one: Server, client: Any) -> None:
        async def asked(path: str = "/v1/chat/completions", **more: Any) -> tuple[int, Any]:
            async with client.post(path, json={**CHAT, **more}) as response:
                return response.status, await response.json()

        for more, grammar in (
            ({}, None),
            ({"response_format": {"type": "text"}}, None),
            ({"response_format": {"type": "json_object"}}, {"type": "object"}),
            ({"response_format": {"type": "text", "json_schema": None}}, None),
            ({"response_format": {"type": "json_object", "json_schema": None}}, {"type": "object"}),
            (form(SCHEMA, strict=True, description="An answer"), SCHEMA),
            # A null in the schema itself is a value.
            (form({"const": None}, strict=None, example=None), {"const": None}),
        ):
            assert (await asked(**more))[0] == 200
            given = engine.asked[-1].grammar
            found = json.loads(given.text) if given else None
            assert found == (grammar and {**grammar, "x-guidance": formats._STYLE})
            # Those of the expert would cut the form.
            assert engine.asked[-1].stops == (() if grammar else ("Q",))
        assert (await asked(**form(SCHEMA), stop="Z"))[0] == 200
        assert engine.asked[-1].stops == ("Z",)
        for more, code, part in refused:
            status, document = await asked(**more)
            assert (status, document["error"]["code"]) == (400, code), document
            assert part in document["error"]["message"] + str(document["error"]["param"]), document
        count = len(engine.asked)
        engine.letters = "!"
        body = {"model": "ash", "prompt": "hi", "response_format": {"type": "json_object"}}
        async with client.post("/v1/completions", json=body) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (400, "unsupported_field")
        assert len(engine.asked) == count

    within(lambda: server(engine), test)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("^(a{1000}){1000}$", "more than 10000 times, counted through its groups"),
        ("((x|a{0,30}[)]){2,}\\)){400}", "counted through its groups"),
        ("a{200}{200}", "counted through its groups"),
        ("a{1000000000000}", "more than 1000 times"),
        ("a{0001001,}", "more than 1000 times"),
        ("^a{1000}(?:b{1000})+[(]c{1000}$", None),
        ("^([a-z]{1,30} ){1,200}$", None),
        ("(a{1000}b){010}\\({1000}", None),
        ("(" * 9 + ")" * 20 + "{1000}", None),
        # Reading them takes no longer than their length.
        ("{" + " " * 30_000, None),
        ("[" * 30_000 + "\\", None),
    ],
)
def test_counts_inside_one_another_are_multiplied(pattern: str, message: str | None) -> None:
    for part in ({"pattern": pattern}, {"patternProperties": {pattern: {}}}):
        with nullcontext() if message is None else pytest.raises(ValueError, match=message):
            formats._check_counts(part)


@pytest.mark.parametrize(
    ("multiples", "message"),
    [
        ([3 * 10**310], "have more than 20 digits"),
        ([9_999_991], "/allOf/0/multipleOf (9999991) has more than 10000 remainders"),
        ([97, 89, 7], "/allOf/0/multipleOf (97), /allOf/1/multipleOf (89), /allOf/2/multipleOf (7) has"),
        ([0.9999991], "(0.9999991) has more than 10000"),
        ([10**21 + 7], "more than 20 digits"),
        ([1e-300, 1e300], "more than 20 digits"),
        # As prices, percentages and sizes have them.
        ([0.01, 0.5, 5, 25, 60, 1_000_000], None),
        ([1e-7], None),
        ([9973], None),
        ([0, -3, True, "x"], None),
    ],
)
def test_numbers_that_a_grammar_would_count_for_too_long(multiples: list[Any], message: str | None) -> None:
    schema = {"allOf": [{"type": "number", "multipleOf": one} for one in multiples]}
    with nullcontext() if message is None else pytest.raises(ValueError, match=re.escape(message)):
        formats._check(schema)


class RefusingEngine(FakeEngine):
    async def answer(self, question: Question) -> Any:
        raise GrammarRefused("no such keyword")
        yield


def test_a_form_that_the_engine_cannot_write_is_refused_in_words() -> None:
    async def test(one: Server, client: Any) -> None:
        async with client.post("/v1/chat/completions", json={**CHAT, **form({})}) as response:
            error = (await response.json())["error"]
            assert (response.status, error["param"]) == (400, "response_format")
            assert error["message"] == "An answer in this form cannot be written: no such keyword"
        # The grammar is then the expert's own.
        async with client.post("/v1/chat/completions", json=CHAT) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"], error["param"]) == (400, "unsupported_grammar", None)
            assert error["message"].endswith("does not work for this prompt: no such keyword")

    within(lambda: server(RefusingEngine()), test)


def test_a_grammar_that_is_not_the_one_scored_is_refused(ash: Path, tmp_path: Path) -> None:
    import shutil

    final = shutil.copytree(ash, tmp_path / "final")
    (final / "grammar.gbnf").write_text('root ::= "other"')
    with pytest.raises(BadInput, match=r"is not the grammar that expert\.json names") as refused:
        read_experts([final])
    assert "expert-cli evaluate" in str(refused.value.hint)
    replace_grammar(final, FORM)
    assert not (final / "grammar.gbnf").exists()
    assert read_experts([final])[0].grammar == FORM
    replace_grammar(final, None)
    assert read_experts([final])[0].grammar is None and "grammar" not in (final / "expert.json").read_text()
