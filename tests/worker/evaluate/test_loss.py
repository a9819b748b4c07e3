"""The loss of batches is that of rows one by one, over answers and the ends behind them."""

from typing import Any

import pytest
import torch
from evaluate import tiny
from evaluate.test_decode import bounded
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from expert_worker.evaluate import loss as loss_module
from expert_worker.evaluate.decode import answer_all
from expert_worker.evaluate.intervals import wilson
from expert_worker.evaluate.loss import LossAlong, answer_loss
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.scores import share
from expert_worker.plan import Decoding

GREEDY = Decoding(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, stop_sequences=(), max_new_tokens=40)
ROWS = [
    {"messages": [{"role": "user", "content": "q" * size}], "completion": "answer" * times}
    for size, times in [(3, 1), (40, 2), (7, 5)]
]


def test_loss_is_a_mean_over_supervised_tokens() -> None:
    model, maker = tiny.model(), PromptMaker(tiny.tokenizer())
    total, count = 0.0, 0
    for row in ROWS:
        prompt = list(maker.prompt(row).ids)
        answer = [*tiny.tokenizer()(row["completion"])["input_ids"], tiny.tokenizer().eos_token_id]
        logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        total += float(torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="sum"))
        count += len(answer)
    assert answer_loss(model, maker, ROWS) == pytest.approx(total / count, rel=1e-5)


def test_rows_beyond_the_positions_of_a_base_have_no_loss() -> None:
    model, maker = bounded("gpt2"), PromptMaker(tiny.tokenizer())
    counted: list[int] = []
    fitting = [row for row in ROWS if row is not ROWS[1]]
    long = {**ROWS[1], "messages": [{"role": "user", "content": "q" * 70}]}
    assert LossAlong.of(model, maker, fitting) is not None
    assert LossAlong.of(model, maker, [*fitting, long]) is None
    assert answer_loss(model, maker, [*fitting, long], counted.append) == answer_loss(model, maker, fitting)
    assert sum(counted) == 3
    assert answer_loss(model, maker, [long]) is None


def adapted() -> Any:
    """With an adapter that changes something."""
    model = get_peft_model(tiny.model(), LoraConfig(r=2, target_modules=["q_proj", "down_proj"]))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


def sliding() -> Any:
    """Its first layer sees the last eight tokens."""
    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=len(tiny.tokenizer()),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_sliding_window=True,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
        initializer_range=0.5,
    )
    return Qwen2ForCausalLM(config).eval()


def soft_prompt() -> Any:
    config = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    return get_peft_model(tiny.model(), config).eval()


def test_virtual_tokens_of_a_soft_prompt_are_read_and_not_scored() -> None:
    model, maker = soft_prompt(), PromptMaker(tiny.tokenizer())
    base, virtual = model.get_base_model(), model.get_prompt(batch_size=1)
    total, count = 0.0, 0
    for row in ROWS:
        prompt = list(maker.prompt(row).ids)
        answer = [*tiny.tokenizer()(row["completion"])["input_ids"], tiny.tokenizer().eos_token_id]
        words = base.get_input_embeddings()(torch.tensor([prompt + answer]))
        logits = base(inputs_embeds=torch.cat([virtual, words], 1)).logits[0, -len(answer) - 1 : -1]
        total += float(torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="sum"))
        count += len(answer)
    assert answer_loss(model, maker, ROWS) == pytest.approx(total / count, rel=1e-5)


@pytest.mark.parametrize("bound", [loss_module.TOKENS_AT_ONCE, 100])
@pytest.mark.parametrize("beginning", ["", "a system message of more than sixty-four tokens " * 2])
@pytest.mark.parametrize("make", [tiny.model, adapted])
def test_the_loss_that_is_summed_while_answers_are_generated_is_the_same(
    make: Any, beginning: str, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "TOKENS_AT_ONCE", bound)
    model, maker = make(), PromptMaker(tiny.tokenizer())
    system = {"role": "system", "content": beginning}
    rows = [row | {"messages": [system, *row["messages"]]} for row in ROWS]
    along = LossAlong.of(model, maker, rows)
    assert along is not None
    prompts = maker.prompts(rows)
    answers = answer_all(model, tiny.tokenizer(), prompts, GREEDY, prompts_read=along.read)
    assert along.mean() == pytest.approx(answer_loss(model, maker, rows), rel=1e-5)
    assert answers == answer_all(model, tiny.tokenizer(), prompts, GREEDY), "the answers are others"


@pytest.mark.parametrize("make", [sliding, soft_prompt])
def test_a_prompt_whose_keys_are_not_all_there_is_computed_with_its_answer(make: Any) -> None:
    assert LossAlong.of(make(), PromptMaker(tiny.tokenizer()), ROWS) is None


def test_the_interval_holds_the_share_and_stays_inside() -> None:
    assert wilson(0, 20)[0] == 0.0
    assert wilson(20, 20)[1] == pytest.approx(1.0)
    low, high = wilson(50, 100)
    assert (low, high) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    assert share([]).accuracy == 0.0
