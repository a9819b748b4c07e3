"""Chat templates that loop, grow, fail or reach for what is not theirs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.adversary import world
from tests.adversary.answers import CANARY
from tests.adversary.attempt import Area, Attempt

BODY = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
NINE = "{% for i in range(99999) %}"
GROWING = (
    "{%% set ns = namespace(t='a') %%}{%% for i in range(%d) %%}{%% set ns.t = %s %%}{%% endfor %%}{{ ns.t }}"
)
TEMPLATES = {
    "loops in loops": NINE * 5 + "x" + "{% endfor %}" * 5 + BODY,
    "a range of 10^10": "{% for i in range(10000000000) %}{% endfor %}" + BODY,
    "a text that doubles": GROWING % (60, "ns.t ~ ns.t"),
    "format wide": "{{ '{:>1000000000}'.format('x') }}" + BODY,
    "percent wide": "{{ '%1000000000d' % 1 }}" + BODY,
    "filter format": "{{ '%1000000000d'|format(1) }}" + BODY,
    "indent": "{{ 'a\\nb'|indent(1000000000) }}" + BODY,
    "tojson indent": "{{ messages|tojson(indent=1000000000) }}" + BODY,
    "replace": GROWING % (30, "ns.t|replace('a', 'aaaaaaaa')"),
    "a text times 10^9": "{{ 'x' * 1000000000 }}" + BODY,
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}" + BODY,
    "attributes": "{{ ''.__class__.__mro__[1].__subclasses__() }}" + BODY,
    "an include": "{% include '{secret}' %}" + BODY,
    "an import": "{% import '{secret}' as s %}{{ s }}" + BODY,
    "a name that is not there": "{{ cycler.__init__.__globals__.os.popen('touch pwned') }}" + BODY,
    "raise_exception": "{{ raise_exception('no') }}",
    "a syntax error": "{% for m in messages %}{{ m",
    "only white space": "   \n  ",
    "a template of 5 MB": "{# " + "x" * 5_000_000 + " #}" + BODY,
}


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else TEMPLATES:
        yield Attempt(name, partial(attempt, name))


def attempt(name: str, folder: Path) -> None:
    base = folder / "base"
    shutil.copytree(world.base(), base, ignore=shutil.ignore_patterns("*.safetensors"))
    secret = folder / "secret.txt"
    secret.write_text(CANARY)
    (base / "chat_template.jinja").write_text(TEMPLATES[name].replace("{secret}", str(secret)))
    data = world.write_rows(folder / "train.jsonl", world.rows(count=4))
    value = world.inside("pretokenize", str(folder), str(base), str(data), seconds=180, memory=5 << 30)
    world.refused_or_done(value)
    assert CANARY not in str(value), "a file was read"
    assert not list(folder.rglob("pwned"))


AREA = Area("templates", "chat templates", attempts)
