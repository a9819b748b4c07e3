"""What users run: every expert of this repository, what `init` writes with each preset, and real manifests
where they are at hand. For each, an expert folder with a tiny base and few rows is made, and `expert-cli`
writes its plan.

    expert = build(case, folder)
    plan = expert.plan("out", resume=True)

Only names, places and sizes change. Adapter, optimizer, precision, quantization, packing, checkpointing,
schedule and evaluation stay the user's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "real" / "manifests"
# test_schema_expert has what is made from a schema.
FROM_SCHEMA = {"sql", "json"}
_PRESETS = ROOT / "cli" / "src" / "scaffold" / "presets"
PRESETS = sorted({path.stem for path in _PRESETS.glob("*.json")} - FROM_SCHEMA)

SIZES = {
    "batch_size": 2,
    "gradient_accumulation_steps": 2,
    "max_steps": 3,
    "max_seq_length": 256,
    "save_steps": 1,
}
# Where evaluation happens at all.
EVALUATION_SIZES = {"eval_steps": 1, "eval_rows": 4}


def cli() -> Path:
    """EXPERT_CLI names another build than the one that `make setup` leaves."""
    return Path(os.environ.get("EXPERT_CLI") or ROOT / "target" / "release" / "expert-cli")


def run_cli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In an 80-column terminal, and in this folder."""
    environment = {**os.environ, "EXPERT_PYTHON": sys.executable, "COLUMNS": "80"}
    return subprocess.run(
        [cli(), *arguments], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )


def train_on_small_base(expert: Path, base: Path, **overrides: Any) -> list[Any]:
    """The events of a training by the expert's manifest, with a base of two layers made in `base`."""
    from expert_worker.events import Events
    from expert_worker.plan.load import parse_plan
    from expert_worker.train import stage

    manifest: dict[str, Any] = json.loads((expert / "manifest.json").read_text())
    manifest["base_models"][0] |= {"name": str(save_base(base)), "overrides": overrides}
    (expert / "manifest.json").write_text(json.dumps(manifest))
    events, memory = Events.in_memory()
    stage.run(parse_plan(json.dumps(Expert(expert).plan())), events)
    return [event.body for event in memory.events]


@dataclass(frozen=True)
class Case:
    """One base of one manifest: a file, or what `init` writes with `preset`."""

    name: str
    file: Path | None = None
    preset: str = ""
    base: int = 0


def cases() -> list[Case]:
    found = [Case(f"preset {preset}", preset=preset) for preset in PRESETS]
    for file in sorted((ROOT / "experts").glob("*/manifest.json")):
        bases = range(len(json.loads(file.read_text())["base_models"]))
        found += [Case(f"{file.parent.name} base {base}", file, base=base) for base in bases]
    return found + [Case(f"real {file.stem}", file) for file in sorted(REAL.glob("*.json"))]


def settings_of(case: Case) -> tuple[dict[str, Any], str]:
    """`training.config` of the case as its base has it, and the base's quantization."""
    if case.file is None:
        with TemporaryDirectory() as folder:
            command = [cli(), "init", "sample", "--preset", case.preset]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            manifest = json.loads((Path(folder) / "sample" / "manifest.json").read_text())
    else:
        manifest = json.loads(case.file.read_text(encoding="utf-8-sig"))
    base = manifest["base_models"][case.base]
    config = {**manifest["training"]["config"], **base.get("overrides", {})}
    return config, base.get("quantization", "none")


@dataclass(frozen=True)
class Expert:
    """A folder that `expert-cli` trains as it is."""

    folder: Path

    def plan(self, output: str = "out", *, resume: bool = False) -> dict[str, Any]:
        """What `expert-cli` decides for this machine's processor."""
        command = [cli(), "plan", "--json", "--device", "cpu", "-m", self.folder]
        environment = {**os.environ, "EXPERT_PYTHON": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        plan: dict[str, Any] = json.loads(done.stdout)["plan"]
        plan["machine"]["paths"]["output"] = str(self.folder / output)
        plan["machine"]["logging"]["trackers"] = []
        request = {"stage": "train", "extend": False, "evaluate": False, "profile": False}
        plan["request"] = {**request, "resume": {"from": "newest" if resume else "nothing"}}
        return plan


def build(case: Case, folder: Path) -> Expert:
    folder.mkdir(parents=True, exist_ok=True)
    if case.file is None:
        command = [cli(), "init", "sample", "--preset", case.preset]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        expert = folder / "sample"
        source = expert / "manifest.json"
        rows_from = expert / "datasets"
    else:
        expert, source = folder / "expert", case.file
        (expert / "datasets").mkdir(parents=True)
        rows_from = source.parent / "datasets"
    manifest = json.loads(source.read_text(encoding="utf-8-sig"))
    base = manifest["base_models"][case.base]
    base["name"] = str(save_base(folder / "base"))
    config = {**manifest["training"]["config"], **base.get("overrides", {})}
    base["overrides"] = base.get("overrides", {}) | SIZES
    if config.get("evaluation_strategy", "no") != "no":
        base["overrides"] |= EVALUATION_SIZES
    if config.get("warmup_steps"):
        base["overrides"]["warmup_steps"] = 1
    manifest["base_models"] = [base]
    manifest["training"].setdefault("decoding", {})["max_new_tokens"] = 4
    for key, count in (("path", 24), ("validation_path", 6), ("test_path", 6)):
        name = manifest["training"]["dataset"].get(key)
        if name is not None:
            rows = _rows(rows_from / Path(name).name, count, manifest["training"]["dataset"])
            (expert / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    if "validation_path" not in manifest["training"]["dataset"] and config.get("evaluation_strategy"):
        manifest["training"]["dataset"]["validation_split"] = 0.2
    (expert / "manifest.json").write_text(json.dumps(manifest))
    return Expert(expert)


def _rows(file: Path, count: int, dataset: dict[str, Any]) -> list[dict[str, Any]]:
    """The shortest of the manifest's own rows; where its data is elsewhere, rows that can be learnt."""
    if file.is_file():
        lines = sorted(file.read_text().splitlines(), key=len)
        return [json.loads(line) for line in lines[:count]]
    asked, answers = "Count from {} on", "{} {} {}"
    found = [(asked.format(n), answers.format(n + 1, n + 2, n + 3)) for n in range(count)]
    text = dataset.get("field_mapping", {}).get("text") or dataset.get("text_field")
    if text is None:
        return [{"prompt": prompt, "completion": answer} for prompt, answer in found]
    turns = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>"
    return [{text: turns.format(prompt, answer)} for prompt, answer in found]


def save_base(folder: Path) -> Path:
    """Two layers of Qwen3 over bytes: every text is many different tokens, and padding is none of them."""
    if folder.exists():
        return folder
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate([*special, *alphabet])}, []))
    words.add_special_tokens([AddedToken(token, special=True) for token in special])
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=len(special) + len(alphabet),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=65536,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    ).save_pretrained(folder)
    return folder
