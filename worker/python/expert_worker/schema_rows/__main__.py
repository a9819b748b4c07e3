"""`python -m expert_worker.schema_rows --ddl FILE --output DIR` makes rows from a schema, and prints
in JSON what was made."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from expert_worker.errors import ExpertError
from expert_worker.evaluate.authoring.write import end_at_interrupt
from expert_worker.schema_rows.make import Request, from_ddl, from_json_schema
from expert_worker.terminal import report_failure


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m expert_worker.schema_rows", description=__doc__)
    schema = parser.add_mutually_exclusive_group(required=True)
    schema.add_argument("--ddl", type=Path, help="a file of CREATE TABLE statements")
    schema.add_argument("--schema", type=Path, help="the JSON Schema of a payload")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write into")
    parser.add_argument("--rows", type=int, default=2000, help="training rows")
    parser.add_argument("--seed", type=int, default=1, help="random seed: each one makes other rows")
    parser.add_argument("--words", type=Path, help="synonyms of tables and columns, in JSON")
    parser.add_argument("--part", help="of the JSON Schema: a definition's name, or a JSON Pointer")
    parser.add_argument("--copy", type=Path, help="where to write the JSON Schema alone")
    parser.add_argument("--lengths", action="store_true", help="count the tokens of rows and answers")
    asked = parser.parse_args(arguments)
    request = Request(
        asked.ddl or asked.schema,
        asked.rows,
        asked.seed,
        asked.output,
        asked.words,
        asked.part,
        asked.copy,
        asked.lengths,
    )
    try:
        made = from_ddl(request) if asked.ddl else from_json_schema(request)
    except ExpertError as error:
        return report_failure(error, to_cli=True)
    sys.stdout.write(json.dumps(dataclasses.asdict(made)) + "\n")
    return 0


if __name__ == "__main__":
    end_at_interrupt()
    sys.exit(main())
