"""How a function is asked for: a signature with a comment, a stub, a sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw

from .task import Task
from .wording import phrase, typed

ES_ENDING = re.compile(r"(ch|sh|ss|x)es$")
LABELS = (
    "",
    "",
    "",
    "Complete:",
    "Finish this function.",
    "Implement this:",
    "Fill in the body",
    "implement",
    "Write the body of this function",
)
STUBS = (
    "{head}",
    "{head} {{",
    "{head} {{\n  // TODO\n}}",
    "{head} {{\n}}",
    "{head} {{\n  // your code here\n}}",
)
WITH_SIGNATURE = (
    "Write a function {signature} that {third}.",
    "Write {signature}, it {third}",
    "Implement {signature}: {third}",
    "function {signature} that {third}",
    "I need a function {signature} that {third}",
    "Give me a function {signature} which {third}",
    "How do I write a function {signature} that {third}?",
    "Implement function {signature} so that it {third}",
    "{signature} - {third}",
    "[Make|Create] a function {signature} to {bare}",
    "[Complete|Finish] the function {signature}. It {third}.",
    "Function {signature} should {bare}",
)
ARROW = (
    "Write an arrow function {name} with the type {type} that {third}",
    "Arrow function {name}: {type} that {third}",
    "const {name} as an arrow function {type} that {third}",
    "[Make|Give me] an arrow function {name}, {type}, to {bare}",
    "As an arrow function: {name} {type}, {third}",
)
IN_WORDS = (
    "Write a function {name} that takes {takes} and {third}. It returns {result}.",
    "Function {name}: takes {takes}, {third}, returns {result}",
    "I need a [typed function|function] {name} with {takes} that {third} ({result})",
    "How do I write a function {name} that takes {takes} and {third}, return type {result}?",
    "[Write|Make|Create] a function called {name}, parameters {takes}, that {third}; return type {result}",
    "Can you write a function {name} which takes {takes} and {third}? Return type {result}",
)


@dataclass(frozen=True)
class Function:
    """`description` is in the third person: `returns the sum of all numbers`."""

    name: str
    params: tuple[tuple[str, str], ...]
    result: str
    body: tuple[str, ...]
    description: str
    level: int
    tags: tuple[str, ...]
    generics: str = ""
    asynchronous: bool = False
    others: tuple[str, ...] = ()
    context: str = ""
    shown: str = ""
    known: str = ""

    @property
    def signature(self) -> str:
        return f"{self.name}{self.generics}({self.parameters}): {self.result}"

    @property
    def parameters(self) -> str:
        return ", ".join(f"{name}: {kind}" for name, kind in self.params)

    @property
    def head(self) -> str:
        return f"{'async ' * self.asynchronous}function {self.signature}"

    @property
    def code(self) -> str:
        return self.with_body("\n".join(f"  {line}" for line in self.body))

    def with_body(self, body: str) -> str:
        return f"{self.head} {{\n{body}\n}}"

    @property
    def lone(self) -> str | None:
        """What a function of one return gives."""
        line = self.body[0]
        return line[len("return ") : -1] if len(self.body) == 1 and line.startswith("return ") else None

    @property
    def arrow(self) -> str:
        returned = f"({self.lone})" if (self.lone or "").startswith("{") else self.lone
        return f"const {self.name} = {'async ' * self.asynchronous}{self.generics}({self.parameters}): {self.result} => {returned};"


def asked(made: Function, draw: Draw, extra_tags: tuple[str, ...] = ()) -> Task:
    style = draw.weighted(
        ("stub", "signature", "words", "arrow"),
        (5, 6, 4, 1.5 if made.lone and not made.generics and " = " not in made.parameters else 0),
    )
    also = tuple(made.with_body(f"  {other}") for other in made.others)
    bare = {"third": made.description, "bare": bare_verb(made.description)}
    if style == "stub":
        return _task(made, stub(made, draw), made.code, also, extra_tags)
    if style == "arrow":
        given = f"({made.parameters}) => {made.result}"
        answer = made.arrow
        said = phrase(draw.one(ARROW), draw, name=made.name, type=given, **bare)
        bodies = [
            other[len("return ") : -1]
            for other in made.others
            if other.startswith("return ") and other.count(";") == 1
        ]
        start = answer[: answer.index(" => ") + len(" => ")]
        also = tuple(f"{start}{body};" for body in bodies)
        return _task(made, typed(said, draw, answer, made.shown), answer, also, extra_tags)
    marker = "async " * made.asynchronous
    if style == "words" and not made.generics:
        takes = _takes(made, draw)
        said = phrase(draw.one(IN_WORDS), draw, name=made.name, takes=takes, result=made.result, **bare)
        said = said.replace("function", f"{marker}function", 1).replace(
            "Function", f"{marker.capitalize()}Function", 1
        )
        said = said.replace("a async", "an async").replace("Async Function", "Async function")
        return _task(made, typed(said, draw, made.code, made.shown), made.code, also, extra_tags)
    mark = "`" if draw.chance(0.25) else ""
    said = phrase(draw.one(WITH_SIGNATURE), draw, signature=f"{mark}{made.signature}{mark}", **bare)
    if made.asynchronous:
        said = said.replace("a function", "an async function").replace("Function ", "Async function ")
        said = (
            said
            if "async" in said.lower()
            else said.rstrip(".") + draw.one([" (async)", ", async", " with async/await"])
        )
    return _task(made, typed(said, draw, made.code, made.shown), made.code, also, extra_tags)


def _task(made: Function, question: str, answer: str, also: tuple[str, ...], extra: tuple[str, ...]) -> Task:
    return Task(question, answer, made.level, (*made.tags, *extra), also, made.context, made.known)


def stub(made: Function, draw: Draw) -> str:
    """The signature below a comment, with nothing or a reminder in its body."""
    sentence = made.description if draw.chance(0.4) else bare_verb(made.description)
    text = sentence[0].upper() + sentence[1:] if draw.chance(0.75) else sentence
    text += "." * draw.chance(0.4)
    head = draw.one(STUBS).format(head=made.head)
    label = draw.one(LABELS)
    form = draw.below(4)
    if form == 0:
        code = f"/** {text} */\n{head}"
    elif form == 1 and "// " in head:
        code = re.sub(r"// .*", f"// {text}", head)
    else:
        code = f"// {text}\n{head}"
    shown = f"{made.shown}\n\n" if made.shown else ""
    return f"{label}\n{shown}{code}" if label else f"{shown}{code}"


def _takes(made: Function, draw: Draw) -> str:
    style = draw.below(3)
    if style == 0:
        told = [f"{name}: {kind}" for name, kind in made.params]
    elif style == 1:
        told = [f"{name} ({kind})" for name, kind in made.params]
    else:
        told = [
            f"{_article(kind)} {name}" if re.fullmatch("string|number|boolean", kind) else f"{name} ({kind})"
            for name, kind in made.params
        ]
    return ", ".join(told[:-1]) + " and " + told[-1] if len(told) > 1 else "".join(told) or "nothing"


def _article(kind: str) -> str:
    return f"a {kind}"


def bare_verb(text: str) -> str:
    """`returns the sum` becomes `return the sum`; a second verb after `and` is treated the same."""
    words = text.split(" ")
    words[0] = _bare(words[0])
    for place in range(1, len(words) - 1):
        if words[place] == "and" and words[place + 1] in SECOND:
            words[place + 1] = _bare(words[place + 1])
    return " ".join(words)


SECOND = frozenset(
    ["returns", "appends", "trims", "replaces", "leaves", "rounds", "sorts", "keeps", "lowercases"]
)


def _bare(verb: str) -> str:
    if ES_ENDING.search(verb):
        return verb[:-2]
    return verb[:-1] if verb.endswith("s") else verb
