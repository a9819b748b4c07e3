"""The leaves of a JSON Schema's payload: what they are called, and values that the schema allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from expert_worker.errors import BadInput
from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.sql import pools

from . import ddl
from .columns import spec, spoken_table
from .document import HINT, MOST_REFERENCES, Document, split_pointer
from .vocabulary import Synonyms, words_of

Schema = Mapping[str, Any]
MOST_LEAVES = 120
DEEPEST = 4
_LISTED = 3
_NOT_MADE = "property without a type that can be made"


@dataclass(frozen=True)
class Leaf:
    """A value of the payload. In `path`, "[]" stands for the items of a list."""

    path: tuple[str, ...]
    kind: str
    words: str
    values: tuple[Any, ...] = ()
    low: float = 1
    high: float = 90
    step: float = 1
    pool: tuple[str, ...] = ()
    held_pool: tuple[str, ...] = ()


@dataclass
class Node:
    """An object: its leaves, objects and lists by key."""

    required: frozenset[str]
    parts: dict[str, Leaf | Node | Items] = field(default_factory=dict)


@dataclass(frozen=True)
class Items:
    of: Leaf | Node
    fewest: int
    most: int


@dataclass
class Payload:
    noun: str
    root: Node
    # Without what cannot be generated; each made value is validated by it.
    validated: dict[str, Any]
    ignored: Counter[str]
    leaves: int


def read_schema(document: Document) -> Payload:
    noun = " ".join(words_of(str(document.schema["title"]))[:4]) or "object"
    return _Reader(document.schema, document.name, noun).payload()


class _NoValue(BadInput):
    """Of a required property. An optional one that holds it is left out."""


class _Reader:
    def __init__(self, document: dict[str, Any], name: str, noun: str) -> None:
        self.document, self.name, self.noun = document, name, noun
        self.ignored: Counter[str] = Counter()
        self.leaves = 0

    def payload(self) -> Payload:
        validated = self.without_patterns(self.document)
        self.check(validated)
        root = self.part(self.document, (), required=True)
        if not isinstance(root, Node) or not root.parts:
            raise self.refused("the schema is not an object with properties that rows can be made of")
        return Payload(self.noun, root, validated, self.ignored, self.leaves)

    def refused(self, message: str) -> BadInput:
        return BadInput(f"{self.name}: {message}", code="bad-schema", hint=HINT)

    def check(self, schema: dict[str, Any]) -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            place = "/".join(map(str, error.absolute_path)) or "its top"
            raise self.refused(f"not a JSON Schema: {place}: {error.message[:200]}") from None

    def without_patterns(self, schema: object) -> Any:
        """Regular expressions of a file from elsewhere can take for ever, so they are not run."""
        if isinstance(schema, list):
            return [self.without_patterns(it) for it in schema]
        if not isinstance(schema, dict):
            return schema
        left = {}
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
                raise self.refused(f"the reference {value[:60]!r} leads to another file")
            if (key == "pattern" and isinstance(value, str)) or key == "patternProperties":
                self.ignored[key] += 1
            else:
                left[key] = self.without_patterns(value)
        return left

    def resolved(self, schema: object) -> Schema:
        """Behind references of the same file; of alternatives the first one that has a value."""
        for _ in range(MOST_REFERENCES):
            if not isinstance(schema, Mapping):
                return {}
            reference = schema.get("$ref")
            if isinstance(reference, str):
                if reference != "#" and not reference.startswith("#/"):
                    raise self.refused(
                        f"the reference {reference[:60]!r} is not a path such as #/$defs/person"
                    )
                schema = self.target(reference)
                continue
            choices = schema.get("oneOf") or schema.get("anyOf")
            if isinstance(choices, list) and choices and "properties" not in schema:
                others = [it for it in choices if not (isinstance(it, Mapping) and it.get("type") == "null")]
                schema = (others or choices)[0]
                continue
            return self.merged(schema)
        raise self.refused("a reference leads to itself")

    def target(self, reference: str) -> object:
        found: object = self.document
        for key in split_pointer(reference):
            if not isinstance(found, Mapping) or key not in found:
                raise self.refused(f"the reference {reference[:60]!r} leads nowhere")
            found = found[key]
        return found

    def merged(self, schema: Schema) -> Schema:
        parts = schema.get("allOf")
        if not isinstance(parts, list):
            return schema
        together: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in parts[:MOST_REFERENCES]:
            for key, value in self.resolved(part).items():
                if key == "properties" and isinstance(value, Mapping):
                    together[key] = {**together.get(key, {}), **value}
                elif key == "required" and isinstance(value, list):
                    together[key] = [*together.get(key, []), *value]
                else:
                    together.setdefault(key, value)
        return together

    def part(self, given: object, path: tuple[str, ...], *, required: bool) -> Leaf | Node | Items | None:
        schema = self.resolved(given)
        kind = _type(schema)
        keys = [key for key in path if key != "[]"]
        if kind == "object" and len(keys) <= DEEPEST:
            return self.node(schema, path)
        if kind == "array" and path and path[-1] != "[]":
            of = self.part(schema.get("items"), (*path, "[]"), required=False)
            fewest, most = _whole(schema.get("minItems"), 1), _whole(schema.get("maxItems"), _LISTED)
            if isinstance(of, Leaf | Node) and fewest <= _LISTED:
                return Items(of, max(fewest, 1), max(fewest, 1, min(most, _LISTED)))
        elif kind == "string" and "pattern" in schema and not _values(schema):
            if not required:
                self.ignored["pattern without examples"] += 1
                return None
        elif kind in ("string", "integer", "number", "boolean") and path:
            self.leaves += 1
            if self.leaves > MOST_LEAVES:
                raise self.refused(f"more than {MOST_LEAVES} values")
            return self.leaf(schema, path, kind)
        if required and path:
            message = f"{self.name}: {'.'.join(keys)} is required, and no value can be made of its schema"
            raise _NoValue(message, code="bad-schema", hint=HINT)
        self.ignored[_NOT_MADE] += 1
        return None

    def node(self, schema: Schema, path: tuple[str, ...]) -> Node | None:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return None
        wanted = schema.get("required")
        required = frozenset(str(it) for it in wanted) if isinstance(wanted, list) else frozenset()
        node = Node(required)
        for key, value in properties.items():
            if not key.strip() or not key.isprintable() or len(key) > ddl.LONGEST_NAME:
                raise self.refused(f"the key {str(key)[:30]!r} cannot be used")
            leaves = self.leaves
            try:
                found = self.part(value, (*path, str(key)), required=key in required)
            except _NoValue:
                if key in required:
                    raise
                self.ignored[_NOT_MADE] += 1
                self.leaves, found = leaves, None
            if found is not None:
                node.parts[str(key)] = found
        return node

    def leaf(self, schema: Schema, path: tuple[str, ...], kind: str) -> Leaf:
        keys = [key for key in path if key != "[]"]
        words = " ".join(words_of(keys[-1]) or [keys[-1]])
        values = _values(schema)
        if values:
            return Leaf(path, "boolean" if isinstance(values[0], bool) else "value", words, values=values)
        if kind == "string":
            form = str(schema.get("format", ""))
            if form in ("date", "date-time", "email", "uuid", "uri", "time"):
                return Leaf(path, form, words)
            return self.text(path, words, keys[-1])
        if kind == "boolean":
            return Leaf(path, kind, words)
        return self.number(schema, path, kind, words, keys[-1])

    def text(self, path: tuple[str, ...], words: str, key: str) -> Leaf:
        """Values as a table's column of that name would have them: a customer's name is a person's."""
        if words.rsplit(maxsplit=1)[-1] in ("street", "address", "line"):
            return Leaf(path, "text", words, pool=_streets(0), held_pool=_streets(1))
        keys = [key for key in path[:-1] if key != "[]"]
        table = ddl.Table(keys[-1] if keys else self.noun.replace(" ", "_"))
        table.columns.append(ddl.Column(key, "TEXT", "text", nullable=False))
        found = spoken_table(table, Synonyms({})).columns
        if not found or found[0].kind not in ("name", "cat", "text"):
            tasks = tuple(pools.TASKS[0].split("|"))
            return Leaf(path, "date" if found else "text", words, pool=tasks, held_pool=tasks)
        sides = []
        for held_out in (False, True):
            draw = Draw(f"payload/{key}/{held_out}")
            if found[0].pool and found[0].kind != "text" and "|" not in found[0].pool:
                made = pools.pool(found[0].pool, held_out, draw)
            else:
                made = spec(found[0], draw, 24, held_out=held_out)[2]
            sides.append(tuple(str(it) for it in made))
        return Leaf(path, "text", words, pool=sides[0], held_pool=sides[1])

    def number(self, schema: Schema, path: tuple[str, ...], kind: str, words: str, key: str) -> Leaf:
        declared = "int" if kind == "integer" else "real"
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        low = float(low) if isinstance(low, int | float) else None
        high = float(high) if isinstance(high, int | float) else None
        column = ddl.Column(key, declared, declared, nullable=False, low=low, high=high)
        found = spoken_table(ddl.Table("payload", [column]), Synonyms({})).columns
        start, end = (found[0].low, found[0].high) if found and found[0].kind == "number" else (1.0, 90.0)
        start, end = low if low is not None else start, high if high is not None else end
        step = schema.get("multipleOf")
        step = (
            float(step) if isinstance(step, int | float) and step > 0 else 1.0 if kind == "integer" else 0.05
        )
        return Leaf(path, kind, words, low=start, high=max(start, end), step=step)


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _values(schema: Schema) -> tuple[Any, ...]:
    """Those that the schema names."""
    if "const" in schema and isinstance(schema["const"], str | int | float):
        return (schema["const"],)
    given: list[Any] = next(
        (schema[key] for key in ("enum", "examples") if isinstance(schema.get(key), list)), []
    )
    return tuple(it for it in given if isinstance(it, str | int | float) and _printable(it))


def _streets(side: int) -> tuple[str, ...]:
    places = pools.PLACES[side].split()
    return tuple(f"{7 * place + 2} {name} Street" for place, name in enumerate(places))


def _type(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((it for it in kind if it != "null"), None)
    if kind is None:
        kind = (
            "object"
            if "properties" in schema
            else "string"
            if "enum" in schema or "const" in schema
            else None
        )
    return str(kind)


def _printable(value: object) -> bool:
    return not isinstance(value, str) or (value.isprintable() and 0 < len(value) <= 80)
