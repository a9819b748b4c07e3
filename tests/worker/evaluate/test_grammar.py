"""Constrained answers conform to their grammar, whatever the model would rather say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import torch
from evaluate import tiny
from plans import example_plan
from pretokenize.test_encoder import smollm2
from schema_grammar.accepts import SCHEMAS, refused_at
from tokenizers import decoders
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from expert_worker.errors import BadInput, Failed, Missing
from expert_worker.evaluate import gbnf as gbnf_texts
from expert_worker.evaluate import guidance as grammars
from expert_worker.evaluate.decode import Prompt, Written, answer_all, sample_all
from expert_worker.evaluate.guidance import check_grammar, guidance, matcher
from expert_worker.evaluate.scored_rows import scored_rows
from expert_worker.plan import Decoding, Grammar
from expert_worker.schema_grammar import OF_PROMPT

JSON = r"""# Short documents.
root   ::= object
value  ::= object | array | string | "true" | "null" | [0-9]{1,3}
object ::= "{" ws ( pair ("," ws pair)? )? "}" ws
pair   ::= string ":" ws value ws
array  ::= "[" ws ( value ws ("," ws value ws)? )? "]"
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" ["\\bfnrt] ){0,6} "\""
ws     ::= | " " | "\n" [ \t]{0,2}
"""
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["kind", "count"],
    "additionalProperties": False,
}
WORDS = 'root ::= "yes" | "no" | "maybe" ("," " maybe")*'
QUESTIONS = ("a", "some longer question", "why?", "x" * 40, "b")


def gbnf(text: str) -> Grammar:
    return Grammar(kind="gbnf", name="rules.gbnf", text=text)


def schema(document: Any) -> Grammar:
    return Grammar(kind="json_schema", name="schema.json", text=json.dumps(document))


def decoding(grammar: Grammar | None, **changes: Any) -> Decoding:
    usual = {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "stop_sequences": ()}
    return Decoding(**{**usual, "max_new_tokens": 120, **changes}, grammar=grammar)


def prompts(tokenizer: Any = None) -> list[Prompt]:
    own = tokenizer or tiny.tokenizer()
    return [Prompt(own(text)["input_ids"]) for text in QUESTIONS]


def answers(grammar: Grammar | None, seed: int = 1, **changes: Any) -> list[Written]:
    return answer_all(tiny.model(seed), tiny.tokenizer(), prompts(), decoding(grammar, **changes), seed=5)


def conforms(text: str) -> bool:
    document = json.loads(text)
    return document["kind"] in ("a", "b") and 0 <= document["count"] <= 99 and len(document) == 2


def fits_words(text: str) -> bool:
    return re.fullmatch("yes|no|maybe(, maybe)*", text) is not None


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_answers_of_a_random_model_conform(temperature: float) -> None:
    """Without the grammar none of them does."""
    warm = {"temperature": temperature, "top_k": 3, "top_p": 0.9}
    for seed in (1, 2):
        for found in answers(schema(SCHEMA), seed, **warm):
            assert conforms(found.text) and not found.cut, found
        for found in answers(gbnf(WORDS), seed, **warm):
            assert found.cut or fits_words(found.text), found
        assert not any(found.text.startswith(("{", "yes", "no")) for found in answers(None, seed, **warm))


def test_a_batch_answers_as_its_rows_do_alone() -> None:
    asked, wanted = prompts(), decoding(schema(SCHEMA))
    together = answer_all(tiny.model(), tiny.tokenizer(), asked, wanted)
    alone = [answer_all(tiny.model(), tiny.tokenizer(), [one], wanted)[0] for one in asked]
    assert together == alone and len({found.text for found in together}) > 1


def test_samples_conform_and_differ() -> None:
    wanted = decoding(schema(SCHEMA), temperature=1.0)
    found = sample_all(tiny.model(), tiny.tokenizer(), prompts()[:2], wanted, 6, seed=5)
    assert all(conforms(text) for texts in found for text in texts)
    assert len({text for texts in found for text in texts}) > 2


def test_a_stop_sequence_ends_an_answer_early_and_a_limit_cuts_it() -> None:
    whole = answers(schema(SCHEMA))
    stopped = answers(schema(SCHEMA), stop_sequences=('"',))
    assert [found.text for found in stopped] == [found.text.partition('"')[0] for found in whole]
    assert not any(found.cut for found in stopped)
    cut = answers(schema(SCHEMA), max_new_tokens=4)
    assert all(found.cut and it.text.startswith(found.text) for found, it in zip(cut, whole, strict=True))


def small_model_of_many_tokens(more_vectors: int = 7) -> tuple[Any, Any]:
    """With the tokenizer of the embedded base."""
    inner = smollm2()
    inner.decoder = decoders.ByteLevel()
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>")
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + more_vectors,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.5,
    )
    return tokenizer, LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_each_answer_keeps_to_the_names_in_its_prompt(kind: Any, temperature: float) -> None:
    tokenizer, model = small_model_of_many_tokens()
    asked = [Prompt(tokenizer(text)["input_ids"]) for text in SCHEMAS[kind]]
    wanted = decoding(Grammar(kind=kind, name=kind, text=kind), temperature=temperature, max_new_tokens=40)
    answers = answer_all(model, tokenizer, asked, wanted, seed=3)
    sampled = sample_all(model, tokenizer, asked, wanted, 6, seed=3)
    for prompt, answer, samples in zip(SCHEMAS[kind], answers, sampled, strict=True):
        for text in (answer.text, *samples):
            # Of a cut answer, the grammar accepts all there is.
            assert refused_at(OF_PROMPT[kind](prompt), text) in (None, ""), text
    if temperature:
        other = OF_PROMPT[kind](SCHEMAS[kind][1])
        assert any(refused_at(other, text) for text in sampled[0]), "each prompt has its own names"


def test_the_tokens_of_the_embedded_base_keep_to_a_grammar() -> None:
    """Tokens of several characters, also parts of characters beyond ASCII."""
    tokenizer, model = small_model_of_many_tokens()
    asked = prompts(tokenizer)[:3]
    for temperature in (0.0, 1.0):
        wanted = decoding(gbnf(JSON), temperature=temperature, max_new_tokens=200)
        for found in answer_all(model, tokenizer, asked, wanted, seed=3):
            assert found.cut or isinstance(json.loads(found.text), dict), found
    for found in answer_all(model, tokenizer, asked, decoding(schema({}), temperature=1.0), seed=3):
        assert found.cut or json.loads(found.text) is not ..., found
    accents = decoding(gbnf("root ::= [\\u00e0-\\u00ff]{3}"), temperature=1.0)
    for found in answer_all(model, tokenizer, asked, accents, seed=3):
        assert re.fullmatch("[\u00e0-\u00ff]{3}", found.text), found


ARITHMETIC = r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"""


def fits(written: str, grammar: Grammar, text: str) -> bool:
    """As llguidance reads the rules, a byte at a time."""
    from llguidance import LLTokenizer

    of_bytes = LLTokenizer("byte")
    tokens = of_bytes.tokenize_str(text)
    reader = matcher(grammar, written, of_bytes)
    return reader.try_consume_tokens(tokens) == len(tokens) and bool(reader.is_accepting())


@pytest.mark.parametrize(
    ("rules", "right", "wrong"),
    [
        (
            'root ::= user "@" host "." tld\nuser ::= [a-z]+\nhost ::= [a-z.]+\ntld ::= [a-z]{2,3}',
            ("ann@example.com", "a@b.c.de"),
            ("ann@example", "ann@example.c", "@b.de"),
        ),
        (
            'root ::= name " is " name\nname ::= [A-Za-z ]+',
            ("Ann is here", "a is is is b"),
            ("Ann is ", "is"),
        ),
        (ARITHMETIC, ("x1 +(y *2) =\n z\n", "a=b\nc=1\n\n"), ("a=b", "a+=b\n", "1a=b\n")),
        ('root ::= ("a" | "ab") "b"{0,1} "c"', ("ac", "abc", "abbc"), ("abbbc", "bc")),
        (
            'root ::= start Item a-b\nstart ::= "s"+\nitem ::= "i"\nItem ::= "I" item\na-b ::= "-"',
            ("ssIi-",),
            ("sii-", "ssIix"),
        ),
        ('root ::= "" | "x"{0} [y]{2,} | .', ("", "yy", "yyyy", "\n", "\u2603"), ("xx", "xyy", "\n\n")),
        (r'root ::= [&&a-c~~\]/-]{2} "\u00e4\x41\\\""', ('&]\u00e4A\\"', 'b-\u00e4A\\"'), ('d&\u00e4A\\"',)),
        (r"root ::= [^\u00e0-\u00ff\n] [^]", ("a\n", "\u2603\u00e0"), ("\u00e0a", "\na", "a")),
        ('root ::= words\nwords ::= ([a-z ]+)+ (" " words)?', ("a" * 30, "a b " * 8), ("", "A")),
    ],
)
def test_gbnf_is_read_by_the_character(rules: str, right: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    """As llama.cpp reads it: no part of a text is taken because it is the longest that fits."""
    from llguidance import LLMatcher

    grammar = gbnf(rules)
    forms = [str(LLMatcher.grammar_from_lark(form)) for form in gbnf_texts.forms(rules)]
    for written in (guidance(grammar, ""), *forms):
        assert [text for text in right if not fits(written, grammar, text)] == []
        assert [text for text in wrong if fits(written, grammar, text)] == []


def test_the_documented_grammar_takes_what_it_says() -> None:
    page = (Path(__file__).parents[3] / "docs/scorers.md").read_text(encoding="utf-8")
    rules = page.split("```gbnf\n")[1].split("```")[0]
    grammar = gbnf(rules)
    written = guidance(grammar, "")
    for right in ("unknown", "yes (100%)", 'no (0%): "a [b]"', "yes (7%): tr\u00e8s-bien dit"):
        assert fits(written, grammar, right), right
    for wrong in ("maybe", "yes (07%)", "yes (1000%)", 'no (0%): ""', "yes (7%): Word"):
        assert not fits(written, grammar, wrong), wrong


def test_large_and_ambiguous_grammars_are_fast_enough() -> None:
    """A list of thousands of words, with and without rules that lead to themselves; parts that fit anywhere;
    a long chain of rules."""
    words = " | ".join(f'"word{number}"' for number in range(6_000))
    chain = "".join(f'r{place} ::= "a" r{place + 1}\n' for place in range(1_900))
    began = process_time()
    for rules, text in [
        (f"root ::= {words}", "word77"),
        (f'root ::= word | "(" root ")"\nword ::= {words}', "((word5999))"),
        ("root ::= name+\nname ::= (([a-z ]+)+ part?)+\npart ::= [a-z]*", "some words " * 60),
        ('root ::= item+ end\nitem ::= [a-z ]+ | "(" root ")"\nend ::= "."', "some words " * 20 + "."),
        (f'root ::= r0\n{chain}r1900 ::= "b"', "a" * 1_900 + "b"),
    ]:
        assert fits(guidance(gbnf(rules), ""), gbnf(rules), text), rules[:80]
    assert process_time() - began < 60


def test_a_tokenizer_may_have_more_tokens_than_the_base_has_vectors() -> None:
    tokenizer, model = small_model_of_many_tokens(-40)
    asked = prompts(tokenizer)[:2]
    for grammar in (gbnf(WORDS), schema(SCHEMA)):
        for found in answer_all(model, tokenizer, asked, decoding(grammar, max_new_tokens=60), seed=3):
            assert found.cut or fits_words(found.text) or conforms(found.text), found


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        (gbnf("root ::= other"), "other"),
        (gbnf('root ::= "a'), "end of input"),
        (gbnf("root ::= " + "(" * 5_000 + '"a"' + ")" * 5_000), ""),
        (schema({"not": {}}), "not"),
        (schema({"type": "string", "pattern": "("}), "regex"),
        (schema({"allOf": [{"type": "string"}, {"type": "integer"}]}), "Unsatisfiable"),
        (schema({"$ref": "http://127.0.0.1:9/schema"}), "does not fetch"),
        # Nothing would end the making of these.
        (
            schema({"properties": {"a/b": {"type": "number", "multipleOf": 9_999_991}}}),
            r"schema\.json cannot be used: /properties/a~1b/multipleOf \(9999991\) has more than 10000 rem",
        ),
        (
            schema(
                {
                    "$defs": {"d": {"type": "number", "multipleOf": 9973}},
                    "multipleOf": 9967,
                    "$ref": "#/$defs/d",
                }
            ),
            r"multiple of /\$defs/d/multipleOf \(9973\), /multipleOf \(9967\) has more than",
        ),
    ],
)
def test_what_llguidance_cannot_use_is_refused_before_a_model_is_loaded(
    grammar: Grammar, reason: str
) -> None:
    with pytest.raises(BadInput, match=reason) as refused:
        check_grammar(grammar)
    assert refused.value.code == "grammar-unusable" and "\n" not in refused.value.message


def test_hostile_grammars_end_in_words() -> None:
    """A rule that begins with itself, one without an end, one without a character of the tokenizer."""
    (found, *_) = answers(gbnf('root ::= root "a" | "b"'), max_new_tokens=6)
    assert re.fullmatch("ba*", found.text)
    assert all(found.cut for found in answers(gbnf("root ::= [a-z] root"), max_new_tokens=6))
    with pytest.raises(Failed, match=r"rules\.gbnf is too complex"):
        answers(gbnf('root ::= "a" root'))
    with pytest.raises((Failed, BadInput), match=r"rules\.gbnf"):
        answers(gbnf('root ::= "\\u2603"'))


def test_without_llguidance_nothing_is_answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(grammars, "find_spec", lambda name: None)
    plan = example_plan(tmp_path, {"recipe.decoding.grammar": gbnf(WORDS).model_dump()})
    for asked in (lambda: answers(gbnf(WORDS)), lambda: scored_rows(plan)):
        with pytest.raises(Missing, match="llguidance") as refused:
            asked()
        assert "pip install llguidance" in str(refused.value.hint)
    assert answers(None)
