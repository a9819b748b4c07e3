"""The leaves of a JSON Schema's payload: what they are called, and values that the schema allows."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from expert_worker.errors import BadInput
from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.sql import pools

from . import ddl
from .columns import FEWEST_STEPS, fine_step, first_step, spec, spoken_table
from .document import HINT, MOST_REFERENCES, Document, at_keys, split_reference
from .vocabulary import Synonyms, words_of

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Schema = Mapping[str, Any]
MOST_LEAVES = 120
DEEPEST = 4
_LISTED = 3
_NOT_MADE = "property without a type that can be made"
# How often an object may be within itself, the first time included.
_MOST_OPEN = 2
# A range that is wider says what the type can hold (`double.MaxValue`), not what people write.
_WIDEST = 10_000_000
# Of a range without an end.
_STEPS = 100
# Formats that values are made for, each with the kind of its leaves. A password is words.
_FORMATS_TEXT = """
date=date date-time=date-time time=time duration=duration email=email idn-email=email uuid=uuid guid=uuid
uri=uri iri=uri url=uri uri-reference=uri iri-reference=uri hostname=hostname idn-hostname=hostname
ipv4=ipv4 ip=ipv4 ipv6=ipv6 password=text
"""
_FORMATS = dict(entry.split("=") for entry in _FORMATS_TEXT.split())
_DRAFT = re.compile(r"https?://json-schema\.org/(draft-0\d|draft/\d{4}-\d\d)/schema#?")
# Where no name has the length that the schema asks for: letters, other first ones for held-out rows.
_LETTERS = ("ABCDEFGHJKLM", "NPQRSTUVWXYZ")
_LONGEST_CODE = 24


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
    # Of `multipleOf`, by which jsonschema divides: it refuses 0.07, since 0.07 / 0.01 is not whole in floats.
    multiple: float = 0
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


def validator_of(schema: Schema) -> Validator:
    """By the draft that the schema names, else by the newest one."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    named = _DRAFT.fullmatch(str(schema.get("$schema")))
    # Written with https or without it, the names of the older drafts begin with http.
    scheme = "https" if named and "/" in named[1] else "http"
    uri = {"$schema": f"{scheme}://json-schema.org/{named[1]}/schema"} if named else {}
    draft = validator_for(uri, default=Draft202012Validator)
    # Without a registry, jsonschema fetches what a reference names.
    return draft(schema, registry=Registry())


class _NoValue(BadInput):
    """Of a required property. An optional one that holds it is left out."""


class _Reader:
    def __init__(self, document: dict[str, Any], name: str, noun: str) -> None:
        self.document, self.name, self.noun = document, name, noun
        self.ignored: Counter[str] = Counter()
        self.leaves = 0
        # The objects and lists around the current place.
        self.open: list[int] = []

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
        from jsonschema import Draft3Validator
        from jsonschema.exceptions import SchemaError

        validator = validator_of(schema)
        if isinstance(validator, Draft3Validator):
            raise self.refused("draft 3 of JSON Schema is not read, only draft 4 and later ones")
        try:
            validator.check_schema(schema)
        except SchemaError as error:
            place = "/".join(map(str, error.absolute_path)) or "its top"
            message = f"{self.name}: not a JSON Schema: {place}: {error.message[:200]}"
            hint = HINT if "$schema" in schema else "If it is of an older draft, name that in its `$schema`."
            raise BadInput(message, code="bad-schema", hint=hint) from None

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
        return self.merged(self.behind(schema))

    def behind(self, schema: object) -> Schema:
        """What references of the same file lead to; of alternatives the first one that has a value."""
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
            return schema
        raise self.refused("a reference leads to itself")

    def target(self, reference: str) -> object:
        found = at_keys(self.document, split_reference(reference))
        if found is None:
            raise self.refused(f"the reference {reference[:60]!r} leads nowhere")
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
        written = self.behind(given)
        schema = self.merged(written)
        kind = _type(schema)
        keys = [key for key in path if key != "[]"]
        if ("enum" in schema or "const" in schema) and not _values(schema):
            pass
        elif kind in ("object", "array"):
            found: Node | Items | None = None
            if (kind == "array" or len(keys) <= DEEPEST) and self.open.count(id(written)) < _MOST_OPEN:
                self.open.append(id(written))
                try:
                    found = self.node(schema, path) if kind == "object" else self.items(schema, path)
                finally:
                    self.open.pop()
            if found is not None:
                return found
        elif kind == "string" and "pattern" in schema and not _values(schema):
            if not required:
                self.ignored["pattern without examples"] += 1
                return None
        elif kind in ("string", "integer", "number", "boolean") and path:
            self.leaves += 1
            if self.leaves > MOST_LEAVES:
                raise self.refused(f"more than {MOST_LEAVES} values")
            leaf = self.leaf(schema, path, kind)
            if leaf is not None:
                return leaf
            self.leaves -= 1
        if required and path:
            message = f"{self.name}: {'.'.join(keys)} is required, and no value can be made of its schema"
            raise _NoValue(message, code="bad-schema", hint=_instead(kind, schema))
        self.ignored[_NOT_MADE] += 1
        return None

    def node(self, schema: Schema, path: tuple[str, ...]) -> Node | None:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return None
        wanted = schema.get("required")
        required = frozenset(str(it) for it in wanted) if isinstance(wanted, list) else frozenset()
        if missing := sorted(required - properties.keys()):
            keys = [*(key for key in path if key != "[]"), missing[0]]
            raise _NoValue(
                f"{self.name}: {'.'.join(keys)} is required, and no property has that name",
                code="bad-schema",
                hint="Give it in `properties`, or take it out of `required`.",
            )
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
        return node if node.parts else None

    def items(self, schema: Schema, path: tuple[str, ...]) -> Items | None:
        if not path or path[-1] == "[]" or "prefixItems" in schema:
            return None
        of = self.part(schema.get("items"), (*path, "[]"), required=False)
        fewest, most = _whole(schema.get("minItems"), 1), _whole(schema.get("maxItems"), _LISTED)
        if not isinstance(of, Leaf | Node) or fewest > _LISTED:
            return None
        return Items(of, max(fewest, 1), max(fewest, 1, min(most, _LISTED)))

    def leaf(self, schema: Schema, path: tuple[str, ...], kind: str) -> Leaf | None:
        keys = [key for key in path if key != "[]"]
        words = " ".join(words_of(keys[-1]) or [keys[-1]])
        values = _values(schema)
        if values:
            is_boolean = all(isinstance(it, bool) for it in values)
            return Leaf(path, "boolean" if is_boolean else "value", words, values=values)
        if kind == "string":
            form = schema.get("format")
            made = _FORMATS.get(str(form).lower()) if form else "text"
            if made == "text":
                return _fitting(self.text(path, words, keys[-1]), schema)
            return Leaf(path, made, words) if made else None
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
        low = max(_bounds(schema, "minimum", "exclusiveMinimum"), default=None)
        high = min(_bounds(schema, "maximum", "exclusiveMaximum"), default=None)
        start, end = _usual(ddl.Column(key, declared, declared, nullable=False, low=low, high=high))
        start, end = low if low is not None else start, high if high is not None else end
        if end - start > _WIDEST:
            usual = _usual(ddl.Column(key, declared, declared, nullable=False))
            if start <= usual[0] and usual[1] <= end:
                start, end = usual
            elif abs(start) <= abs(end):
                end = start + _WIDEST
            else:
                start = end - _WIDEST
        multiple = _finite(schema.get("multipleOf")) or 0.0
        if kind == "integer" and multiple:
            # Multiples of 2.5 that are whole are those of 5.
            multiple = float(Fraction(str(multiple)).numerator)
        step = multiple or (1.0 if kind == "integer" else 0.05)
        if low is None and end <= start:
            start = 0.0 if end > 0 else end - _STEPS * step
        if multiple or kind == "integer":
            start = first_step(start, step)
        if high is None and end - start < step * (FEWEST_STEPS if multiple > 1 else 1):
            end = start + _STEPS * step
        if kind == "number" and not multiple and 0 < end - start < FEWEST_STEPS * step:
            # As short as people write numbers of so small a range.
            step = fine_step(end - start)
            start = first_step(start, step)
        return Leaf(path, kind, words, low=start, high=max(start, end), step=step, multiple=multiple)


def _instead(kind: str, schema: Schema) -> str:
    """What helps where no value can be made: those of objects and lists are made of their parts."""
    if "enum" in schema or "const" in schema:
        return "Name texts, numbers, true or false in its `enum` or `const`, or take it out of `required`."
    if kind == "array" and "prefixItems" in schema:
        return "Give it `items` in place of `prefixItems`, or take it out of `required`."
    if kind == "object" and not schema.get("properties"):
        return "Give it `properties`, or take it out of `required`."
    if kind == "array":
        return f"Give it `items`, and at most {_LISTED} as `minItems`, or take it out of `required`."
    if kind == "object":
        return f"Take it out of `required`; at most {DEEPEST} objects are read one in the other."
    return "Name some in its `examples` or `enum`."


def _usual(column: ddl.Column) -> tuple[float, float]:
    """The range of a number of that name."""
    found = spoken_table(ddl.Table("payload", [column]), Synonyms({})).columns
    return (found[0].low, found[0].high) if found and found[0].kind == "number" else (1.0, 90.0)


def _bounds(schema: Schema, *keys: str) -> list[float]:
    """Draft 4 says by true or false whether a bound is itself allowed."""
    found = [_finite(schema.get(key)) for key in keys if not isinstance(schema.get(key), bool)]
    return [bound for bound in found if bound is not None]


def _finite(bound: object) -> float | None:
    try:
        found = float(bound) if isinstance(bound, int | float) else math.inf
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _fitting(leaf: Leaf, schema: Schema) -> Leaf | None:
    """With the values that are as long as the schema says, or with letters where no value is."""
    shortest, longest = _whole(schema.get("minLength"), 0), _whole(schema.get("maxLength"), 80)
    if leaf.kind != "text" or (shortest <= 1 and longest >= 80):
        return leaf
    sides = [
        tuple(it for it in pool if shortest <= len(it) <= longest) for pool in (leaf.pool, leaf.held_pool)
    ]
    if not all(sides):
        length = min(longest, max(shortest, 3))
        if not 1 <= length <= _LONGEST_CODE or length < shortest:
            return None
        sides = [_codes(length, letters, "/".join(leaf.path)) for letters in _LETTERS]
    return replace(leaf, pool=sides[0], held_pool=sides[1])


def _codes(length: int, first: str, key: str) -> tuple[str, ...]:
    draw = Draw(f"payload/{key}/{first}")
    every = "".join(_LETTERS)
    return tuple(
        dict.fromkeys(
            draw.one(first) + "".join(draw.one(every) for _ in range(length - 1)) for _ in range(26)
        )
    )


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
