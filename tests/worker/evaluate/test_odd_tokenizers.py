"""Tokenizers as they are found: `evaluate` and `generate` answer as transformers does, or refuse in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from evaluate import tiny
from evaluate.test_evaluate_stage import DECODING
from plans import example_plan
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import UnigramTrainer, WordPieceTrainer

from expert_worker.errors import ExpertError
from expert_worker.evaluate.decode import Written
from expert_worker.evaluate.stage import evaluate
from expert_worker.evaluate.subject import open_subject
from expert_worker.events import Events
from expert_worker.exit import Exit
from expert_worker.generate.stage import reply

QUESTIONS = ["why", "say 12 words", "a longer question than the others"]
SPECIAL = ["<end>", "<user>", "<assistant>", "<system>", "<s>"]
WORDS = [*QUESTIONS, "user", "assistant", "<|im_start|>", "<|im_end|>", "\n"]


def bytewise() -> Tokenizer:
    return Tokenizer.from_str(tiny.tokenizer().backend_tokenizer.to_str())


def with_bos() -> Tokenizer:
    """Puts <s> before every text, and so does its template."""
    made = bytewise()
    made.add_special_tokens(["<s>"])
    one = [("<s>", made.token_to_id("<s>"))]
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=one)
    return made


def byte_fallback() -> Tokenizer:
    """As sentencepiece models are converted: pieces with "▁", any other character as its bytes."""
    letters = [chr(code) for code in range(33, 127)] + ["\u2581"]
    tokens = [*SPECIAL, "<unk>", *letters, *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = {token: at for at, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens(SPECIAL)
    return made


def unigram() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = UnigramTrainer(
        vocab_size=60, special_tokens=[*SPECIAL, "<unk>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(WORDS * 3, trainer)
    return made


def wordpiece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
    trainer = WordPieceTrainer(vocab_size=80, special_tokens=[*SPECIAL, "[UNK]"], show_progress=False)
    made.train_from_iterator(WORDS * 3, trainer)
    return made


def words() -> Tokenizer:
    found = ["[UNK]", *SPECIAL, *{word for text in WORDS for word in text.split()}]
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(found)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(SPECIAL)
    return made


@dataclass(frozen=True)
class Base:
    """A base's folder: its tokenizer, and what its files say. `None` leaves a key out."""

    tokenizer: Callable[[], Tokenizer] = bytewise
    config: dict[str, Any] = field(default_factory=dict)
    generation: dict[str, Any] = field(default_factory=dict)
    template: str | None = tiny.TEMPLATE
    # Token vectors more or fewer than the tokenizer has tokens.
    vectors: int = 0

    def write(self, folder: Path) -> Path:
        made = self.tokenizer()
        config = tiny.model().config
        config.vocab_size = made.get_vocab_size() + self.vectors
        config.eos_token_id = config.pad_token_id = config.bos_token_id = None
        torch.manual_seed(3)
        model = tiny.LlamaForCausalLM(config)
        model.generation_config.eos_token_id = model.generation_config.pad_token_id = None
        model.save_pretrained(folder)
        made.save(str(folder / "tokenizer.json"))
        settings = {"eos_token": "<end>", "pad_token": "<end>", "tokenizer_class": "PreTrainedTokenizerFast"}
        (folder / "tokenizer_config.json").write_text(json.dumps(dropping_none(settings | self.config)))
        path = folder / "generation_config.json"
        path.write_text(json.dumps(dropping_none(json.loads(path.read_text()) | self.generation)))
        if self.template is not None:
            (folder / "chat_template.jinja").write_text(self.template)
        return folder


def dropping_none(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def bos_and(template: str) -> str:
    return "{{ bos_token }}" + template


WORKS = {
    "usual": Base(),
    "no pad": Base(config={"pad_token": None}),
    "no end and no pad": Base(config={"eos_token": None, "pad_token": None}),
    "no end": Base(config={"eos_token": None}),
    "ends in a list": Base(generation={"eos_token_id": [0, *range(30, 60)]}),
    "ends in a list alone": Base(config={"eos_token": None}, generation={"eos_token_id": [*range(9, 50)]}),
    "an end that is not special": Base(config={"eos_token": "a", "pad_token": None}),
    "a pad beyond the vectors": Base(config={"pad_token": "[PAD]"}),
    "its own pad": Base(config={"pad_token": "<system>"}),
    "start by template and tokenizer": Base(with_bos, {"bos_token": "<s>"}, template=bos_and(tiny.TEMPLATE)),
    "start by the tokenizer alone": Base(with_bos, {"bos_token": "<s>"}),
    "a start that is not there": Base(template=bos_and(tiny.TEMPLATE)),
    "more vectors than tokens": Base(vectors=13),
    "more tokens than vectors, unused": Base(with_bos, vectors=-1),
    "no chat template": Base(template=None),
    "byte fallback": Base(byte_fallback, {"unk_token": "<unk>"}),
    "unigram": Base(unigram, {"unk_token": "<unk>"}),
    "wordpiece": Base(wordpiece, {"unk_token": "[UNK]"}),
    "words": Base(words, {"unk_token": "[UNK]"}),
}
REFUSED = {
    "more tokens than vectors, used": (Base(with_bos, {"bos_token": "<s>"}, vectors=-1,
                                            template=bos_and(tiny.TEMPLATE)), "'<s>' the id 99"),
    "an added token beyond the vectors": (
        Base(config={"additional_special_tokens": ["<user>", "<new>"]},
             template=tiny.TEMPLATE.replace("<assistant>", "<new>")), "'<new>' the id 99"),
    "a template that refuses": (Base(template="{{ raise_exception('no users here') }}"), "no users here"),
    "a template that is damaged": (Base(template="{% for m in messages %}"), "template cannot be read"),
    "a template without an end": (
        Base(template="{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
        "10 million steps"),
    "a template without bounds": (
        Base(template="{% for a in range(9999) %}{{ 'x' * 90000 }}{% endfor %}"), "64 MiB"),
    "a template that prints nothing": (Base(template="{% if false %}x{% endif %}"), "empty prompt"),
}  # fmt: skip


def plan_of(folder: Path, base: Path) -> Any:
    datasets = folder / "datasets"
    datasets.mkdir()
    source = {"name": "datasets/test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    rows = [{"prompt": question, "completion": "a word", "tags": []} for question in QUESTIONS]
    (datasets / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return example_plan(
        folder,
        {
            "recipe.base.quantization": "none",
            "recipe.template": {"kind": "tokenizer", "source": None},
            "recipe.data.train": [],
            "recipe.data.validation": [],
            "recipe.data.test": [source],
            "recipe.decoding": DECODING,
            "recipe.evaluation.scorer": "exact",
            "machine.dtype": "fp32",
            "machine.paths.base": str(base),
            "machine.paths.home": str(folder / "home"),
            "machine.paths.data": {"datasets/test.jsonl": str(datasets / "test.jsonl")},
            "request": {"stage": "evaluate", "adapter": None},
        },
    )


def by_hand(model: Any, tokenizer: Any, base: Base, question: str) -> str:
    """Greedy, token by token, from a prompt that transformers makes."""
    template = None if base.template is not None else CHATML
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}],
        chat_template=template,
        add_generation_prompt=True,
        return_dict=False,
    )
    listed = model.generation_config.eos_token_id
    ends = {tokenizer.eos_token_id, *(listed if isinstance(listed, list) else [listed])}
    answer: list[int] = []
    while len(answer) < DECODING["max_new_tokens"]:
        with torch.no_grad():
            found = int(model(torch.tensor([[*ids, *answer]])).logits[0, -1].argmax())
        if found in ends:
            break
        answer.append(found)
    return str(tokenizer.decode(answer, skip_special_tokens=True))


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)


@pytest.mark.parametrize("base", WORKS.values(), ids=WORKS.keys())
def test_answers_are_those_of_transformers(
    base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from expert_worker.evaluate import examiner

    plan = plan_of(tmp_path, base.write(tmp_path / "base"))
    events, _ = Events.in_memory("evaluate")
    subject = open_subject(plan, None, events)
    expected = [by_hand(subject.model, subject.tokenizer, base, question) for question in QUESTIONS]
    assert len(set(expected)) > 1
    for question, text in zip(QUESTIONS, expected, strict=True):
        assert reply(plan.recipe, events, subject, question).base == text

    told: list[list[str]] = []
    judge = examiner.scores.judge_answers

    def noted(scorer: str, rows: Any, written: list[Written], *options: Any) -> Any:
        told.append([answer.text for answer in written])
        return judge(scorer, rows, written, *options)

    monkeypatch.setattr(examiner.scores, "judge_answers", noted)
    report: Any = evaluate(plan, events, None)
    assert told == [expected]
    assert report.base.loss > 0


@pytest.mark.parametrize(("base", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_work_is_refused_in_words(base: Base, said: str, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, base.write(tmp_path / "base"))
    events, _ = Events.in_memory("evaluate")
    subject = open_subject(plan, None, events)
    for ask in (
        lambda: evaluate(plan, events, None),
        lambda: reply(plan.recipe, events, subject, QUESTIONS[0]),
    ):
        with pytest.raises(ExpertError, match=said) as refused:
            ask()
        assert refused.value.exit_code == Exit.BAD_INPUT and refused.value.hint
