"""A stage that does nothing but misbehave on demand; `EXPERT_TEST_ACTS` says how, in order.

Never shipped: the worker loads it only where `EXPERT_TEST_STAGE` names it and PYTHONPATH leads to it.
"""

import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from expert_worker.checkpoint.files import sha256
from expert_worker.errors import ExpertError, Missing, Storage
from expert_worker.events import Events
from expert_worker.plan import Plan, Source, TestSet


def raw(events: Events, data: bytes) -> None:
    """Onto the event stream, as no worker should."""
    os.write(events._live[0].descriptor, data)


def run(plan: Plan, events: Events) -> dict[str, object]:
    events.begin()
    if plan.request.stage == "base":
        return fetched(plan)
    acts = [act.partition("=") for act in os.environ["EXPERT_TEST_ACTS"].split(",")]
    mine = list(acts_for(plan.recipe.expert, acts))
    # A test may send signals from the moment it reads the process id.
    for name, _ in mine:
        if name in BEFORE_SIGNALS:
            BEFORE_SIGNALS[name]()
    Path(os.environ["EXPERT_TEST_PID_FILE"]).write_text(str(os.getpid()))
    for name, argument in mine:
        if name in OF_THE_PLAN:
            OF_THE_PLAN[name](plan, argument)
        elif name in OF_BOTH:
            OF_BOTH[name](plan, events, argument)
        elif name not in BEFORE_SIGNALS and name not in ("even", "plain"):
            ACTS[name](events, argument)
    names = {name for name, _, _ in acts}
    if plan.request.stage == "bench":
        return measurement(plan, events, on_plain_path="plain" in names)
    if "planted" in names:
        best = next(given for name, _, given in acts if name == "planted")
        return answers_of_search(plan, float(best))
    result = result_of(plan, scored="score" in names)
    return result | (SPEED if "speed" in names else {}) | ({"answers": ANSWERS} if "echo" in names else {})


def acts_for(expert: str, acts: list[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """`only=NAME` begins what one expert does, `all` what every one does."""
    meant = True
    for name, _, argument in acts:
        if name in ("only", "all"):
            meant = name == "all" or argument == expert
        elif meant and name != "speed":
            yield name, argument


def trained_in_search(plan: Plan, best: str) -> None:
    """A line for each training; a rate scores higher the nearer it is to `best`."""
    if plan.request.stage != "train":
        return
    with Path(os.environ["EXPERT_TEST_PID_FILE"] + ".trained").open("a") as file:
        file.write(f"{plan.machine.paths.output}\n")
    leave_a_finished_run(plan, "weights")
    path = Path(plan.machine.paths.output) / "run.json"
    record = json.loads(path.read_text()) | {"result": answers_of_search(plan, float(best))}
    path.write_text(json.dumps(record))


def answers_of_search(plan: Plan, best: float) -> dict[str, object]:
    """With `even` all are as often right, and only the loss says which rate is near."""
    assert plan.recipe.data.test == plan.recipe.data.validation and not plan.test_sets
    distance = abs(math.log10(plan.recipe.optimizer.learning_rate / best))
    even = "even" in os.environ["EXPERT_TEST_ACTS"].split(",")
    right = 0.5 if even else 0.9 - distance / 4
    share = {"correct": 1, "total": 50, "accuracy": right, "low": right - 0.05, "high": right + 0.05}
    # As the worker answers where only the adapter is asked.
    assert plan.recipe.evaluation.without_base
    files = scored_files(plan.recipe.data.test, plan.machine.paths.data)
    scores = {"rows": 50, "base": None, "adapter": share, "test_set": files, "seconds": 1.0}
    if plan.request.stage == "evaluate":
        assert plan.request.against, "a trial is scored by the worker that trained it"
        paired = {"difference": 0.2, "low": -0.01, "high": 0.41, "better": 12, "worse": 2}
        return {"ok": True} | scores | {"against": {"name": "own", "comparison": paired}}
    loss = 1 + distance / 4
    return {"ok": True, "steps": 7, "eval_loss": loss, "seconds": 8.0, "evaluation": scores}


def poison(plan: Plan, rank: str) -> None:
    if plan.recipe.adapter.rank == int(rank):
        raise ExpertError("The loss is not finite in 5 steps in a row", code="not-finite")


def is_after(plan: Plan, trainings: str) -> bool:
    """Whether this is the next training after so many."""
    log = Path(os.environ["EXPERT_TEST_PID_FILE"] + ".trained")
    done = len(log.read_text().splitlines()) if log.exists() else 0
    return plan.request.stage == "train" and done == int(trainings)


def stall(plan: Plan, events: Events, trainings: str) -> None:
    """The next training after so many waits until the test lets it go, or stops it."""
    if not is_after(plan, trainings):
        return
    marks = Path(os.environ["EXPERT_TEST_PID_FILE"])
    marks.with_suffix(".stalled").touch()
    while not marks.with_suffix(".released").exists():
        events.tick()
        if events.stop_requested:
            raise events.stop.interrupted("saved")
        time.sleep(0.01)


def full(plan: Plan, trainings: str) -> None:
    """The disk is full in the next training after so many."""
    if is_after(plan, trainings):
        raise Storage("cannot write checkpoint-1: no space left on the device", hint="free some space")


def unjudged(plan: Plan, trainings: str) -> None:
    """After so many trainings, this one among them, the endpoint that judges is away."""
    if is_after(plan, trainings):
        raise ExpertError("The judge m failed 4 times: HTTP 503", hint="score again", code="judge-failed")


# Ten steps of 200 tokens.
SPEED = {"steps": 10, "tokens": 2000, "tokens_per_second": 100.0, "seconds": 36.0}


def fetched(plan: Plan) -> dict[str, object]:
    """Base and Hub datasets that were not on this machine are there now."""
    for source in plan.recipe.data.train:
        if source.format == "huggingface":
            hub_main(source).parent.mkdir(parents=True, exist_ok=True)
            hub_main(source).write_text("a" * 40)
    folder = Path(plan.machine.paths.home) / "bases" / plan.recipe.base.name
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    return {"ok": True, "folder": str(folder)}


def result_of(plan: Plan, *, scored: bool) -> dict[str, object]:
    request = plan.request.model_dump(by_alias=True)
    # A forked process has its parent's command line.
    forked = " warm " in " ".join([*sys.orig_argv, ""])
    result = {"ok": True, "stage": plan.request.stage, "request": request, "forked": forked}
    if plan.request.stage == "export":
        written = {"target": plan.request.target, "merged": plan.request.merge}
        return result | written | {"bytes": 3 << 20, "logits_difference": 8.1103036109198e-7}
    if scored and plan.request.stage == "evaluate":
        return result | score_of(plan)
    return result | {"evaluation": score_of(plan)} if scored and request.get("evaluate") else result


def measurement(plan: Plan, events: Events, *, on_plain_path: bool) -> dict[str, object]:
    """Of a machine that holds 8 rows, is fastest at 4 and has no compiler; its kernel `whole` is wrong."""
    machine = plan.machine
    if machine.compile:
        events.warning("not-compiled", "the run continues uncompiled: no compiler")
    rows, whole = machine.micro_batch, machine.kernels.get("head_loss") == "whole"
    return {
        "ok": True,
        "fits": rows <= 8,
        "tokens_per_second": 100.0 - abs(rows - 4) * 5 + 50 * (machine.dtype == "bf16"),
        "peak_bytes": rows << 20,
        "ready_seconds": 1.0,
        "first_step_seconds": 2.0,
        "steps": [{"seconds": 2.0, "tokens": 80}] * 3,
        "losses": [2.0, 1.9] if whole else [2.0, 1.5],
        "gpu_utilization": None,
        "applied": {"path": "plain" if on_plain_path or not machine.fast_path else "fast"},
        "kernels": {
            "head_loss": {"chosen": "chunked", "others": ["whole"]},
            "swiglu": {"chosen": "recomputed", "others": ["torch"]},
        },
    }


SCORE: dict[str, Any] = {"rows": 5, "base": {"accuracy": 0.2}, "adapter": {"accuracy": 0.8}}


def score_of(plan: Plan) -> dict[str, object]:
    own = plan.machine.paths.scorer
    scorer = {"scorer": "score.py:score", "scorer_sha256": sha256(Path(own))} if own else {}
    further = {name: further_score(chosen) for name, chosen in plan.test_sets.items()}
    settings = {"evaluation_digest": plan.evaluation_digest}
    other, size = getattr(plan.request, "other_rows", None), plan.recipe.evaluation.test_set_size
    # A limit that leaves no row out is none.
    other = None if other == "few" and size is not None and size >= SCORE["rows"] else other
    settings |= {"other_rows": other} if other else {}
    main = {"test_set": scored_files(plan.recipe.data.test, plan.machine.paths.data)}
    return SCORE | settings | scorer | main | ({"test_sets": further} if further else {})


def further_score(chosen: TestSet) -> dict[str, object]:
    files = scored_files(chosen.sources, chosen.files)
    return {"rows": 3, "base": {"accuracy": 0.1}, "adapter": {"accuracy": 0.3}, "test_set": files}


def scored_files(sources: Sequence[Source], places: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"name": source.name, "sha256": "0" * 64, "revision": hub_main(source).read_text()}
        if source.format == "huggingface"
        else {"name": source.name, "sha256": sha256(Path(places[source.name]))}
        for source in sources
    ]


def hub_main(source: Source) -> Path:
    name = source.name.partition("::")[0].replace("/", "--")
    return Path(os.environ["HF_HUB_CACHE"]) / f"datasets--{name}" / "refs" / "main"


def leave_scores(plan: Plan, _argument: str) -> None:
    """As a stage that scores does; `result_of` contains the score too."""
    (Path(plan.machine.paths.output) / "evaluation.json").write_text(json.dumps(score_of(plan)))


def digests(folder: Path) -> dict[str, object]:
    """As the worker records them; its own function would cost an import of torch."""
    return {path.name: {"sha256": sha256(path), "bytes": path.stat().st_size} for path in folder.iterdir()}


def leave_a_finished_run(plan: Plan, weights: str) -> None:
    output = Path(plan.machine.paths.output)
    (output / "final").mkdir(parents=True, exist_ok=True)
    (output / "final" / "adapter_config.json").write_text("{}")
    (output / "final" / "adapter_model.safetensors").write_text(weights)
    record = {
        "recipe_digest": plan.recipe_digest,
        "recipe": plan.recipe.model_dump(mode="json"),
        "inputs": plan.inputs.model_dump(mode="json") if plan.inputs else None,
        "final": digests(output / "final"),
        "result": {"ok": True, "steps": 7, "eval_loss": 0.5},
    }
    (output / "run.json").write_text(json.dumps(record))


def refuse(plan: Plan, expert: str) -> None:
    if plan.recipe.expert == expert:
        raise Missing("no such device", hint="buy one")


def steps(events: Events, count: str) -> None:
    """Five are an epoch."""
    for step in range(1, int(count) + 1):
        events.progress(
            step=step,
            total_steps=int(count),
            epoch=step / 5,
            loss=1.0 / step,
            lr=5e-5,
            tokens=8,
            supervised_tokens=4,
            tokens_per_second=8.0,
            seconds=1.0,
            data_wait=0.0,
        )


def under_way(events: Events, _argument: str) -> None:
    """A third of a long training, with everything that a step may say."""
    events.progress(
        step=1200,
        total_steps=4000,
        epoch=0.3,
        loss=1.23456,
        lr=5e-5,
        tokens=8192,
        supervised_tokens=4096,
        tokens_per_second=21_700.0,
        seconds=2.0,
        data_wait=0.1,
        memory_allocated=3 << 30,
        eta=3725.0,
    )


def quiet_stage(events: Events, budget: str) -> None:
    events.stage("wait", quiet_budget=float(budget))


def hang(_events: Events, _argument: str) -> None:
    while True:
        time.sleep(60)


def obey(events: Events, seconds: str) -> None:
    """Saves so long."""
    while not events.stop_requested:
        events.tick()
        time.sleep(0.01)
    time.sleep(float(seconds or 0))
    raise events.stop.interrupted("saved checkpoint-3")


def obey_scoring(plan: Plan, events: Events, argument: str) -> None:
    if plan.request.stage == "evaluate":
        Path(plan.machine.paths.output, "scoring").touch()
        obey(events, argument)


def ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def die(_events: Events, number: str) -> None:
    os.kill(os.getpid(), int(number))
    time.sleep(60)


def starve(_events: Events, _argument: str) -> None:
    """As a library in C++ that gets no memory."""
    os.write(
        2, b"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    )
    os.abort()


ANSWERS: list[dict[str, str]] = []


def echo(events: Events, _argument: str) -> None:
    """Answers each prompt of standard input, as generate does."""
    events.stage("answering", quiet_budget=0.2)
    for line in sys.stdin:
        prompt = json.loads(line)
        ANSWERS.append({"prompt": prompt, "base": prompt.upper()})
        events.text("base", prompt.upper())
        events.text("base", "", done=True)
        events.stage("answering", quiet_budget=0.2)
    events.stop.raise_if_requested()


def crash(_events: Events, number: str) -> None:
    """By a signal, or by leaving without a word."""
    if number != "0":
        os.kill(os.getpid(), int(number))
        time.sleep(60)
    os._exit(0)


def await_file(events: Events, path: str) -> None:
    while not Path(path).exists():
        events.tick()
        time.sleep(0.01)


def leave(_events: Events, status: str) -> None:
    os._exit(int(status))


def unforeseen(_events: Events, _argument: str) -> None:
    raise ZeroDivisionError("a secret place in the code")


def missing(_events: Events, _argument: str) -> None:
    raise Missing("no such device", hint="buy one")


def stray_print(_events: Events, _argument: str) -> None:
    print("a library talks on stdout")
    os.write(1, b"and so does its C code\n")


def garbage(events: Events, count: str) -> None:
    for index in range(int(count)):
        raw(events, b"\x1b[31mnot an event %d\xff\n" % index)


def torn(events: Events, _argument: str) -> None:
    raw(events, b'{"time": 1.0, "attempt": 1, "bo')


def flood(events: Events, mebibytes: str) -> None:
    for _ in range(int(mebibytes)):
        raw(events, b"x" * (1 << 20))
    raw(events, b"\n")


def other_contract(events: Events, _argument: str) -> None:
    line = b'{"time":1.0,"attempt":1,"body":{"type":"started","contract":99,"stage":"train","pid":1,'
    raw(events, line + b'"recipe_digest":"","resumed_from":0}}\n')
    time.sleep(60)


def grandchild(events: Events, _argument: str) -> None:
    """Holds the event stream open after this process is gone, as a forked data loader would."""
    stream = events._live[0].descriptor
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=stream)
    Path(os.environ["EXPERT_TEST_PID_FILE"] + ".child").write_text(str(child.pid))


def late(events: Events, seconds: str) -> None:
    """The last event comes when this process is gone: on a busy machine the CLI reads it as late."""
    line = '{"time":1.0,"attempt":1,"body":{"type":"finished","result":{"ok":true,"stage":"train"}}}'
    words = ["sh", "-c", f"sleep {seconds}; echo '{line}'"]
    subprocess.Popen(words, stdout=events._live[0].descriptor, start_new_session=True)


def outlive() -> None:
    """The kernel no longer ends this process with the CLI."""
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)


def daemon(_events: Events, _argument: str) -> None:
    """Leaves a program running in its own session, as trackers do."""
    nothing = subprocess.DEVNULL
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(
        command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, close_fds=False
    )
    Path(os.environ["EXPERT_TEST_PID_FILE"] + ".child").write_text(str(child.pid))


def leave_a_checkpoint(plan: Plan, step: str) -> None:
    folder = Path(plan.machine.paths.output) / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer.json").write_text(step)
    facts = {
        "recipe_digest": plan.recipe_digest,
        "recipe": plan.recipe.model_dump(mode="json"),
        "inputs": plan.inputs.model_dump(mode="json") if plan.inputs else None,
        "threads": plan.machine.threads.compute,
    }
    state = {"facts": facts, "files": digests(folder)}
    (folder / "state.json").write_text(json.dumps(state))


OF_THE_PLAN = {
    "final": leave_a_finished_run,
    "checkpoint": leave_a_checkpoint,
    "score": leave_scores,
    "refuse": refuse,
    "poison": poison,
    "full": full,
    "unjudged": unjudged,
    "planted": trained_in_search,
}
OF_BOTH = {"stall": stall, "obey-scoring": obey_scoring}
BEFORE_SIGNALS = {"outlive": outlive, "ignore-signals": ignore_signals}
ACTS = {
    function.__name__.replace("_", "-"): function
    for function in (
        crash,
        steps,
        under_way,
        quiet_stage,
        hang,
        obey,
        die,
        starve,
        echo,
        leave,
        unforeseen,
        missing,
        stray_print,
        garbage,
        torn,
        flood,
        other_contract,
        grandchild,
        late,
        daemon,
    )
} | {"await": await_file}
