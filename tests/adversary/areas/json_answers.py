"""JSON and JSON Schema answers: deep, long, endless, and references to what must not be fetched."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary.answers import tally
from tests.adversary.attempt import Area, Attempt, Tally

SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 3}}, "required": ["age"]}
INSTANCES: list[Any] = [{"age": 3}, {"age": 2}, {"age": "3"}, {}, {"age": 4, "x": 1}, [], "a" * 40 + "!"]
ROW = {"completion": json.dumps(SCHEMA), "instances": INSTANCES}


def hostile(port: int) -> dict[str, str]:
    far = f"http://127.0.0.1:{port}"
    schemas: dict[str, Any] = {
        "a reference to a server": {"$ref": f"{far}/schema.json"},
        "a schema of a server": {"$schema": f"{far}/meta", "type": "object"},
        "an id of a server": {"$id": f"{far}/a", "$ref": "b"},
        "a dynamic reference": {"$dynamicRef": f"{far}/a"},
        "a recursive reference": {"$recursiveRef": f"{far}/a"},
        "an item of a server": {"properties": {"age": {"$ref": f"{far}/a"}}},
        "a vocabulary": {"$vocabulary": {f"{far}/v": True}, "$ref": f"{far}/v"},
        "a reference to a file": {"$ref": "file://{folder}/secret.txt"},
        "ftp": {"$ref": "ftp://127.0.0.1/x"},
        "a reference to itself": {"$ref": "#"},
        "two that refer to each other": {
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            "$ref": "#/$defs/a",
        },
        "a reference into nothing": {"$ref": "#/a/b/c"},
        "a reference with a bad pointer": {"$ref": "#/~2/%zz"},
        "a regex bomb": {"pattern": "^(a+)+$"},
        "a regex bomb of names": {"patternProperties": {"^(a+)+$": False}},
        "a regex that is none": {"pattern": "(((("},
        "a type that is none": {"type": "thing"},
        "all of many": {"allOf": [{"anyOf": [{"type": "object"}] * 300}] * 300, "not": {}},
        "uniqueItems": {"uniqueItems": True, "contains": {"$ref": "#"}},
        "a number of 400 digits": {"minimum": 10**400},
        "a list": [],
    }
    doubled: dict[str, Any] = {"type": "object"}
    for _ in range(40):
        doubled = {"allOf": [doubled], "anyOf": [True]}
    return {name: json.dumps(schema) for name, schema in schemas.items()} | {
        "40 deep of two kinds": json.dumps({"not": doubled}),
        "100,000 brackets": "[" * 100_000,
        "objects 100,000 deep": '{"a":' * 100_000,
        "the same key twice": '{"type": "object", "type": "object"}',
        "NaN": '{"minimum": NaN}',
        "10 MB": '{"description": "' + "x" * 10_000_000 + '"}',
        "not JSON": "{'type': 'object'}",
    }


def attempts(quick: bool) -> Iterator[Attempt]:
    yield Attempt("JSON answers", partial(attempt, quick))


def attempt(quick: bool, folder: Path) -> Tally:
    asked: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as canary:

        def hear() -> None:
            while True:
                try:
                    connection, _ = canary.accept()
                except OSError:
                    return
                asked.append(connection)
                connection.close()

        threading.Thread(target=hear, daemon=True).start()
        every = hostile(canary.getsockname()[1])
        chosen = dict(list(every.items())[:: 6 if quick else 1])
        result = tally("json", ROW, json.dumps(SCHEMA), chosen, folder)
        canary.shutdown(socket.SHUT_RDWR)
    if asked:
        result.fell.append(f"the canary server was asked {len(asked)} times")
    return result


AREA = Area("json_answers", "JSON and JSON Schema answers (a canary server listens)", attempts)
