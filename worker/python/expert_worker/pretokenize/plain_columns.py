"""Columns of a table in the types that the native reader has: dates and decimals as text, for instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def plain_batches(schema: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The schema with plain types, and what makes a batch fit it.

    A column that cannot become plain stays: the native reader names it."""
    import pyarrow as pa

    fields = [field.with_type(_plain_or_same(field.type)) for field in schema]
    changed = [at for at, field in enumerate(fields) if field.type != schema.field(at).type]
    target = pa.schema(fields)

    def plain(batch: Any) -> Any:
        if not changed:
            return batch
        columns = list(batch.columns)
        for at in changed:
            columns[at] = columns[at].cast(fields[at].type)
        return pa.record_batch(columns, schema=target)

    return target, plain


def _plain_or_same(kind: Any) -> Any:
    import pyarrow as pa

    found = _plain(kind)
    try:
        pa.array([], kind).cast(found)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return kind
    return found


def _plain(kind: Any) -> Any:
    import pyarrow as pa

    is_a = pa.types
    if is_a.is_dictionary(kind):
        found = _plain(kind.value_type)
    elif isinstance(kind, pa.BaseExtensionType):
        found = _plain(kind.storage_type)
    elif is_a.is_temporal(kind) or is_a.is_decimal(kind):
        found = pa.string()
    elif is_a.is_fixed_size_binary(kind):
        found = pa.binary()
    elif is_a.is_struct(kind):
        found = pa.struct([field.with_type(_plain(field.type)) for field in kind])
    elif is_a.is_map(kind):
        found = pa.list_(pa.struct([("key", _plain(kind.key_type)), ("value", _plain(kind.item_type))]))
    elif is_a.is_large_list(kind):
        found = pa.large_list(_plain(kind.value_type))
    elif is_a.is_list(kind) or is_a.is_fixed_size_list(kind):
        found = pa.list_(_plain(kind.value_type))
    else:
        found = kind
    return found
