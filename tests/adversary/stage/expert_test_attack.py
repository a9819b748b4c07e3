"""A stage that reports a given text, as a hostile model, base or library could make the real one report."""

import json
import os
from typing import Any

from expert_worker.errors import Failed
from expert_worker.events import Events
from expert_worker.plan import Plan


def run(plan: Plan, events: Events) -> Any:
    events.begin()
    result: Any = {"ok": True}
    for what, *arguments in json.loads(os.environ["ADVERSARY_SAYS"]):
        if what == "failed":
            raise Failed(arguments[0], hint=arguments[1], code=arguments[2])
        if what == "result":
            result = arguments[0]
        elif what == "stdout":
            os.write(1, arguments[0].encode("utf-8", "surrogatepass"))
        elif what == "pipe":
            os.write(events._live[0].descriptor, arguments[0].encode())  # type: ignore[attr-defined]
        else:
            getattr(events, what)(*arguments)
    return result
