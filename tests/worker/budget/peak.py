"""Measures, in a separate process, the memory that one step of a planned run adds to the loaded model."""

from __future__ import annotations

import gc
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from expert_worker.imports import quick_imports

with quick_imports():
    import torch
    from peft import LoraConfig, PeftConfig, PromptTuningConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    from expert_worker.base.fp32_products import hold_in_fp32
    from expert_worker.train.engine import PlainEngine
    from expert_worker.train.fast.batch import PackedBatch
    from expert_worker.train.fast.decoder import FastDecoder
    from expert_worker.train.fast.dropout import Place, install
    from expert_worker.train.objective import SupervisedFineTuning

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def model_of(plan: dict[str, Any]) -> Any:
    machine = plan["machine"]
    config = AutoConfig.from_pretrained(machine["paths"]["base"])
    model = AutoModelForCausalLM.from_config(config, dtype=DTYPES[machine["dtype"]])
    if machine["fp32_products"]:
        hold_in_fp32(model.requires_grad_(False), DTYPES[machine["dtype"]])
    adapter = adapter_of(plan["recipe"]["adapter"])
    return get_peft_model(model, adapter, autocast_adapter_dtype=True).train()


def adapter_of(adapter: dict[str, Any]) -> PeftConfig:
    if adapter["kind"] == "prompt":
        tokens = sum(prompt["tokens"] for prompt in adapter["soft_prompts"])
        return PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=tokens)
    return LoraConfig(
        r=adapter["rank"],
        lora_alpha=adapter["alpha"],
        lora_dropout=adapter["dropout"],
        use_dora=adapter["kind"] == "dora",
        target_modules=adapter["target_modules"],
        task_type="CAUSAL_LM",
    )


def backward_of(plan: dict[str, Any], model: Any) -> Callable[[PackedBatch], object]:
    if not plan["machine"]["fast_path"]:
        place = Place()
        install(model, place)
        plain = PlainEngine(model, SupervisedFineTuning(), place, 0, torch.device("cpu"))
        return lambda batch: plain.backward(batch, 1.0)
    decoder = FastDecoder(model, Place(), checkpointing=plan["machine"]["checkpointing"])
    return lambda batch: decoder.loss(batch).backward()


def batch_of(plan: dict[str, Any], vocabulary: int) -> PackedBatch:
    length = plan["recipe"]["batch"]["max_seq_length"]
    ids = torch.randint(0, vocabulary, (length,))
    keys = torch.arange(length, dtype=torch.int32)
    return PackedBatch(ids, ids.clone(), torch.arange(length), (length,), keys)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def high_water() -> int:
    """Of this program only: getrusage starts from the peak of the parent process."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    torch.manual_seed(0)
    model = model_of(plan)
    backward = backward_of(plan, model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    batch = batch_of(plan, model.config.vocab_size)
    # Threads, kernels and their buffers come with the first pass, however small it is.
    keys = torch.arange(8, dtype=torch.int32)
    small = PackedBatch(batch.ids[:8], batch.labels[:8], batch.positions[:8], (8,), keys)
    backward(small)
    model.zero_grad(set_to_none=True)
    gc.collect()
    loaded = resident()
    backward(batch)
    optimizer.step()
    peak = high_water()
    print(json.dumps({"loaded": loaded, "peak": peak, "added": peak - loaded}))


main()
