"""`python -m expert_worker.routing REQUEST` routes the prompts of a request, a JSON file, and prints
the result in JSON."""

import argparse
import sys
from pathlib import Path

from expert_worker.errors import ExpertError
from expert_worker.routing.models import ChosenExpert, RouteRequest, RouteResult
from expert_worker.routing.shelf import open_router
from expert_worker.terminal import report_failure


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m expert_worker.routing", description=__doc__)
    parser.add_argument("request", type=Path, metavar="REQUEST", help="the shelf and the prompts")
    asked = parser.parse_args(arguments)
    try:
        result = answer(RouteRequest.model_validate_json(asked.request.read_bytes()))
    except ExpertError as error:
        return report_failure(error, to_cli=True)
    sys.stdout.write(result.model_dump_json() + "\n")
    return 0


def answer(request: RouteRequest) -> RouteResult:
    opened = open_router(request.shelf)
    routes = (opened.router.route(prompt) for prompt in request.prompts)
    return RouteResult(
        ok=True,
        routes=tuple(ChosenExpert(expert=expert, confidence=chance) for expert, chance in routes),
        router=opened.record,
        learnt=opened.learnt,
        warnings=opened.warnings,
    )


if __name__ == "__main__":
    sys.exit(main())
