"""Causal attention that never crosses from one document of a packed batch into the next."""

from ..registry import Operation, Target
from .blocks_cpu import BLOCKS_CPU
from .cuda import FLASH_ATTN, TORCH_VARLEN
from .documents import Attention, Documents
from .flash_cpu import FLASH_CPU
from .native_cpu import NATIVE_CPU
from .sdpa import SDPA_BY_DOCUMENT, SDPA_MASKED
from .shared import shared_beginnings

__all__ = ["ATTENTION", "Attention", "Documents", "shared_beginnings"]

ATTENTION: Operation[Target, Attention] = Operation(
    "attention",
    [NATIVE_CPU, BLOCKS_CPU, FLASH_CPU, FLASH_ATTN, TORCH_VARLEN, SDPA_BY_DOCUMENT, SDPA_MASKED],
)
