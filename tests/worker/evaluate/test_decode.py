"""Batches say what single prompts say, end where they should, and leave training as it was."""

from typing import Any

import pytest
import torch
from evaluate import tiny
from peft import PromptTuningConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

from expert_worker.base.families import table
from expert_worker.evaluate import decode, prompt_cache
from expert_worker.evaluate.decode import Prompt, Written, answer_all, cut, sample_all, write_tokens
from expert_worker.evaluate.prompts import PromptMaker, pick_examples
from expert_worker.plan import Decoding

GREEDY = Decoding(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, stop_sequences=(), max_new_tokens=12)


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt(tiny.tokenizer()(text)["input_ids"]) for text in texts]


def texts_of(model: Any, *texts: str) -> list[str]:
    return [answer.text for answer in answer_all(model, tiny.tokenizer(), prompts(*texts), GREEDY)]


def test_a_batch_answers_as_its_rows_do_alone() -> None:
    model, asked = tiny.model(), prompts("a", "some longer question", "why?", "x" * 40)
    together = answer_all(model, tiny.tokenizer(), asked, GREEDY)
    alone = [answer_all(model, tiny.tokenizer(), [prompt], GREEDY)[0] for prompt in asked]
    assert together == alone
    assert len(set(together)) > 1


def test_a_batch_with_a_soft_prompt_answers_as_its_rows_do_alone() -> None:
    """Prompts of several lengths: padding would stand between the virtual tokens and the text."""
    settings = PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")
    model, asked = (
        get_peft_model(tiny.model(), settings).eval(),
        prompts("a", "some longer question", "b", "x" * 40),
    )
    together = answer_all(model, tiny.tokenizer(), asked, GREEDY)
    assert together == [answer_all(model, tiny.tokenizer(), [prompt], GREEDY)[0] for prompt in asked]
    drawn = GREEDY.model_copy(update={"temperature": 1.0})
    samples = sample_all(model, tiny.tokenizer(), asked, drawn, 2, seed=5)
    assert samples == [sample_all(model, tiny.tokenizer(), [prompt], drawn, 2, seed=5)[0] for prompt in asked]


@pytest.mark.parametrize("soft", [False, True])
def test_an_answer_is_that_of_a_model_without_a_cache(soft: bool) -> None:
    """A soft prompt is put before the first token alone; afterwards it is in the cache."""
    model = tiny.model()
    if soft:
        settings = PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")
        model = get_peft_model(model, settings).eval()
    for text in ("some question", "why?", "x" * 30):
        ids = torch.tensor([tiny.tokenizer()(text)["input_ids"]])
        written = write_tokens(model, tiny.tokenizer(), ids, torch.ones_like(ids), GREEDY)[0].tolist()
        read = ids
        for token in written:
            with torch.no_grad():
                logits = model(input_ids=read, attention_mask=torch.ones_like(read), use_cache=False).logits
            assert logits[0, -1].argmax() == token
            read = torch.cat([read, torch.tensor([[token]])], dim=1)
        assert len(set(written)) > 1


POSITIONS = 64
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": len(tiny.tokenizer()),
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
BASES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_positions": POSITIONS, "initializer_range": 0.5},
    "gpt_bigcode": {"n_positions": POSITIONS, "initializer_range": 0.5},
    "opt": {
        "max_position_embeddings": POSITIONS,
        "ffn_dim": 64,
        "word_embed_proj_dim": 32,
        "init_std": 0.5,
    },
    "mpt": {"max_seq_len": POSITIONS, "initializer_range": 0.5},
    "gptj": {"n_positions": POSITIONS, "rotary_dim": 4, "initializer_range": 0.5},
    "codegen": {"n_positions": POSITIONS, "rotary_dim": 4, "initializer_range": 0.5},
    "gpt_neo": {
        "max_position_embeddings": POSITIONS,
        "attention_types": [[["global"], 2]],
        "initializer_range": 0.5,
    },
}


def bounded(kind: str) -> Any:
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **BASES[kind])).eval()
    # So that answers end at their limit alone.
    model.generation_config.suppress_tokens = list(range(len(tiny.SPECIAL)))
    return model


@pytest.mark.parametrize("kind", BASES)
def test_answers_end_at_the_last_position_of_a_base(kind: str) -> None:
    model, sizes = bounded(kind), (POSITIONS + 9, 5, 60, 30, POSITIONS, 55, 60, 52, 63)
    asked = prompts(*("x" * size for size in sizes))
    together = answer_all(model, tiny.tokenizer(), asked, GREEDY)
    for size, prompt, answer in zip(sizes, asked, together, strict=True):
        assert [answer] == answer_all(model, tiny.tokenizer(), [prompt], GREEDY)
        most = min(GREEDY.max_new_tokens, max(0, POSITIONS - size))
        assert answer.cut and len(tiny.tokenizer()(answer.text)["input_ids"]) == most
    drawn = GREEDY.model_copy(update={"temperature": 1.0})
    samples = sample_all(model, tiny.tokenizer(), asked, drawn, 2, seed=5)
    assert [bool(any(texts)) for texts in samples] == [size < POSITIONS for size in sizes]
    assert all(len(texts) == 2 for texts in samples)


def test_a_soft_prompt_takes_positions_of_a_base() -> None:
    settings = PromptTuningConfig(num_virtual_tokens=10, task_type="CAUSAL_LM")
    model, asked = get_peft_model(bounded("gpt2"), settings).eval(), prompts("x" * 50, "x" * 54)
    short, none = answer_all(model, tiny.tokenizer(), asked, GREEDY)
    assert short.text and short.cut and none == Written("", cut=True)
    with model.disable_adapter():
        assert answer_all(model, tiny.tokenizer(), asked, GREEDY)[1].text


def test_all_bases_with_a_last_position_are_tested() -> None:
    assert {name for family in table().families for name in family.bounded_positions} == set(BASES)


def test_an_answer_ends_at_eos() -> None:
    model = tiny.model()
    (text,) = texts_of(model, "a")
    first = tiny.tokenizer()(text[:1])["input_ids"][0]
    model.generation_config.eos_token_id = [0, first]
    (ended,) = answer_all(model, tiny.tokenizer(), prompts("a"), GREEDY)
    assert len(ended.text) <= 1 and not ended.cut


def test_an_answer_ends_before_a_stop_sequence() -> None:
    model = tiny.model()
    (text,) = texts_of(model, "a")
    stop = text[3:5]
    (ended,) = answer_all(
        model, tiny.tokenizer(), prompts("a"), GREEDY.model_copy(update={"stop_sequences": (stop,)})
    )
    assert ended == Written(text[: text.find(stop)])
    nothing = GREEDY.model_copy(update={"stop_sequences": ("",)})
    (whole,) = answer_all(model, tiny.tokenizer(), prompts("a"), nothing)
    assert whole == Written(text, cut=True), "an empty text ends no answer"
    assert cut("abc", ["", "z"]) == "abc"


def test_an_answer_ends_at_a_stop_sequence_of_many_tokens() -> None:
    """And is not written on to its limit."""
    model, most = tiny.model(), 60
    long = GREEDY.model_copy(update={"max_new_tokens": most})
    (whole,) = answer_all(model, tiny.tokenizer(), prompts("a"), long)
    stop = whole.text[2:45]
    assert whole.cut and len(tiny.tokenizer()(stop)["input_ids"]) > decode.LOOK_BACK
    (asked,) = prompts("a")
    ids = torch.tensor([list(asked.ids)])
    stopped = long.model_copy(update={"stop_sequences": (stop,)})
    found = decode.write_tokens(model, tiny.tokenizer(), ids, torch.ones_like(ids), stopped)
    assert found.shape[1] < most
    assert answer_all(model, tiny.tokenizer(), [asked], stopped) == [Written(whole.text[:2])]


def test_an_answer_without_an_end_is_cut_at_the_limit() -> None:
    """A stop sequence or an end that comes with the last token is an end."""
    model = tiny.model()
    long, short = (
        answer_all(model, tiny.tokenizer(), prompts("a"), GREEDY.model_copy(update={"max_new_tokens": most}))[
            0
        ]
        for most in (12, 6)
    )
    assert long.cut and short.cut and long.text.startswith(short.text) and long != short
    last = GREEDY.model_copy(update={"max_new_tokens": 6, "stop_sequences": (short.text[-1],)})
    (ended,) = answer_all(model, tiny.tokenizer(), prompts("a"), last)
    assert not ended.cut and len(ended.text) < len(short.text)


def test_sampling_depends_on_its_seed_alone_and_leaves_the_global_state() -> None:
    warm = GREEDY.model_copy(update={"temperature": 1.5, "top_k": 50, "top_p": 0.95})
    model = tiny.model()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, two, other = (
        answer_all(model, tiny.tokenizer(), prompts("a", "b"), warm, seed=seed) for seed in (5, 5, 6)
    )
    assert torch.equal(before, torch.get_rng_state())
    assert one == two != other
    assert not model.training


def test_stopping_is_noticed_within_a_token() -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    (answer,) = answer_all(tiny.model(), tiny.tokenizer(), prompts("a"), GREEDY, stop_asked=stop)
    assert asked == 3
    assert len(answer.text) <= 3


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("stops", [(), ("e",)])
def test_answers_that_end_early_leave_the_batch(
    monkeypatch: pytest.MonkeyPatch, stops: tuple[str, ...], temperature: float
) -> None:
    """What the others say stays the same, and they are computed without those that have ended."""
    model, asked = tiny.model(), prompts("a", "some longer question", "why?", "x" * 40, "b", "c d e f g")
    decoding = GREEDY.model_copy(
        update={"stop_sequences": stops, "max_new_tokens": 24, "temperature": temperature}
    )
    first = tiny.tokenizer()(answer_all(model, tiny.tokenizer(), asked, decoding)[1].text)["input_ids"]
    model.generation_config.eos_token_id = [0, first[5]]
    monkeypatch.setattr(decode, "STRETCH", 10**6)
    whole = answer_all(model, tiny.tokenizer(), asked, decoding, seed=3)
    sizes: list[int] = []
    model.register_forward_pre_hook(
        lambda _module, _args, given: sizes.append(len(given["input_ids"])), with_kwargs=True
    )
    monkeypatch.setattr(decode, "STRETCH", 4)
    assert answer_all(model, tiny.tokenizer(), asked, decoding, seed=3) == whole
    assert len({len(answer.text) for answer in whole}) > 2
    assert sizes[0] == len(asked) > sizes[-1]


SHOWN = "example " * 16


def test_what_prompts_begin_with_is_computed_once() -> None:
    """Answers are the same, whatever their lengths; a short beginning is computed with each prompt."""
    model, texts = tiny.model(), ["a", "some longer question", "why?", "x" * 40, "b", "c d e f g", SHOWN[:-1]]
    asked = prompts(*(SHOWN + text for text in texts))
    columns: list[int] = []
    model.register_forward_pre_hook(
        lambda _module, _args, given: columns.append(given["input_ids"].numel()), with_kwargs=True
    )
    alone = [answer_all(model, tiny.tokenizer(), [prompt], GREEDY)[0] for prompt in asked]
    assert len(set(alone)) > 3
    columns.clear()
    assert answer_all(model, tiny.tokenizer(), asked, GREEDY) == alone
    shared = len(tiny.tokenizer()(SHOWN)["input_ids"])
    assert shared >= prompt_cache.FEWEST_SHARED
    assert columns[0] == shared
    assert columns[1] == len(asked) * len(tiny.tokenizer()(SHOWN[:-1])["input_ids"])
    columns.clear()
    short = prompts(*(f"example {text}" for text in texts[:3]))
    answer_all(model, tiny.tokenizer(), short, GREEDY)
    assert columns[0] == len(short) * max(len(prompt.ids) for prompt in short)


def test_a_prompt_that_is_the_beginning_of_the_others_is_answered() -> None:
    model, asked = tiny.model(), prompts(SHOWN, SHOWN, SHOWN + "more")
    alone = [answer_all(model, tiny.tokenizer(), [prompt], GREEDY)[0] for prompt in asked]
    assert answer_all(model, tiny.tokenizer(), asked, GREEDY) == alone


def test_the_training_mode_is_restored() -> None:
    model = tiny.model().train()
    answer_all(model, tiny.tokenizer(), prompts("a"), GREEDY)
    assert model.training


def test_examples_stand_between_system_and_question() -> None:
    example = {"messages": [{"role": "user", "content": "2+2"}], "completion": "4", "tags": ["sum"]}
    maker = PromptMaker(tiny.tokenizer(), None, [example])
    asked = [{"role": "system", "content": "Count."}, {"role": "user", "content": "3+3"}]
    assert maker.text(asked) == "<system>Count.<end><user>2+2<end><assistant>4<end><user>3+3<end><assistant>"
    assert PromptMaker(tiny.tokenizer(), "{{ messages[0].content }}").text(asked) == "Count."


@pytest.mark.parametrize("count", [1, 3])
def test_examples_are_short_and_differ(count: int) -> None:
    rows = [
        {"messages": [{"role": "user", "content": "q" * size}], "completion": "a", "tags": [tag]}
        for size, tag in [(9, "x"), (1, "x"), (2, "y"), (5, "z")]
    ]
    assert [row["tags"][0] for row in pick_examples(rows, count)] == ["x", "y", "z"][:count]


def test_examples_with_one_tag_are_as_many_as_others() -> None:
    rows = [
        {"messages": [{"role": "user", "content": text}], "completion": "a", "tags": ["x"]}
        for text in ("dddd", "a", "a", "bb", "ccc")
    ]
    shown = [row["messages"][0]["content"] for row in pick_examples(rows, 3)]
    assert shown == ["a", "bb", "ccc"], "the shortest, none of them twice"
    assert len(pick_examples(rows[:1], 3)) == 1
