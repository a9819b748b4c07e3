"""The `final/` folder of a tiny model that a test has adapted."""

from pathlib import Path
from typing import Any

from plans import example_record

from expert_worker.plan import Recipe
from expert_worker.results import ExpertRecord
from expert_worker.run_record import adapter_config, adapter_tensors, write_final
from expert_worker.run_record.inference import inference_files


def final_of(
    model: Any,
    tokenizer: Any,
    recipe: Recipe,
    output: Path,
    *,
    base: str = "tiny",
    record: ExpertRecord | None = None,
    card: str = "# card\n",
) -> Path:
    """`base` is the name that the adapter gives for it; without a `record` that of the example plan."""
    return write_final(
        output,
        config=adapter_config(model.peft_config["default"], base),
        weights=adapter_tensors(model),
        tokenizer=tokenizer,
        inference=inference_files(recipe.template, recipe.decoding, model, tokenizer),
        record=record or example_record(output),
        card=card,
    )
