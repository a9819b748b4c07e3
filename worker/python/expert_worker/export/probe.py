"""Whether two models say the same: their logits on fixed tokens."""

from typing import Any

import torch

from expert_worker.errors import Failed

_LENGTH = 48
# Relative to the logits' own size. Merging rounds weights once to the storage type: no more may show.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2}


def logits(model: Any) -> torch.Tensor:
    """The same tokens for every model of one vocabulary, spread over all of it."""
    device = next(model.parameters()).device
    size = model.get_input_embeddings().weight.shape[0]
    ids = (torch.arange(2 * _LENGTH) * 7919 % size).reshape(2, _LENGTH).to(device)
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=ids).logits
    return found[:, -_LENGTH:].float().cpu()


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Root mean square of the difference over that of the logits."""
    return float((one - other).norm() / one.norm().clamp_min(1e-12))


def demand_equal(found: float, dtype: torch.dtype, what: str) -> None:
    allowed = TOLERANCE[dtype]
    if not found <= allowed:
        raise Failed(
            f"{what} does not say what the adapter says: its logits differ by {found:.2g} (relative), "
            f"{allowed:.0e} is allowed for {str(dtype).removeprefix('torch.')}. Nothing was exported.",
            hint="Export with --adapter instead, or merge at a higher precision (--mixed-precision no).",
            code="export-differs",
        )
