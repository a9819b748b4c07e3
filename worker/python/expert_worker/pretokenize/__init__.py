"""Data sets to packed token caches: found by content, built once, read through a mapping.

`ensure_cache(plan, events)` gives the plan's cache, building it first where there is none yet.
`template_text(template, tokenizer)` is the chat template that the rows are rendered with.
"""

from expert_worker.pretokenize.cache import Cache, Rows
from expert_worker.pretokenize.ensure import ensure_cache, find_cache
from expert_worker.pretokenize.template import template_text

__all__ = ["Cache", "Rows", "ensure_cache", "find_cache", "template_text"]
