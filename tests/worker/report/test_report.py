"""The report: self-contained, true about attempts, harmless whatever text is in it, not stopped by gaps."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pretokenize.bases import llama3_like, write_base
from pretokenize.workshop import Workshop
from sample_run import sample_run, share

from expert_worker.errors import BadInput, Storage
from expert_worker.events.models import Best, Checkpoint
from expert_worker.recorded import CacheRecord, Share
from expert_worker.report import write_index, write_report
from expert_worker.report.charts import Line, axis_over, bins_of, curve, lengths, steps_axis
from expert_worker.report.data import rows_and_tokens
from expert_worker.report.numbers import short
from expert_worker.report.read import read_run
from expert_worker.report.scores import apart, marked
from expert_worker.report.series import thinned, trailing_mean
from expert_worker.terminal import visible


class Page(HTMLParser):
    """Checks that tags are balanced; collects text and attributes."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.words.append(data)


def text_of(run: Path) -> str:
    page = Page()
    page.feed(write_report(run).read_text())
    return "".join(page.words)


@pytest.fixture
def written(tmp_path: Path) -> tuple[str, Page]:
    html = write_report(sample_run(tmp_path)).read_text()
    page = Page()
    page.feed(html)
    assert page.open == []
    return html, page


def test_it_is_one_file_that_fetches_nothing(written: tuple[str, Page]) -> None:
    html, page = written
    assert "default-src 'none'" in html
    assert not re.search(r"https?://|url\(|@import", html)
    assert {name for _, name, _ in page.attributes}.isdisjoint({"src", "href", "onload", "onclick"})
    assert "<script" not in html


def test_it_says_what_the_records_say(written: tuple[str, Page]) -> None:
    text = " ".join(written[1].words)
    for part in (
        "expert-sql",
        "finished",
        "lora, rank 8 on smollm2-135m-instruct",
        "0.41",
        "0.52",
        "75.2%",
        "6m37s",
        "1.41 GiB",
        "set operation",
        "the intervals are apart",
        "half have at most 118 tokens",
        "What it learnt",
        "datasets/train.jsonl",
        "3,990",
        "99.9%",
        "25%",
        "misuse of aggregate: COUNT()",
        "final/ is step 120: the lowest eval_loss of 3 evaluations",
        "The micro-batch was halved to 4",
        "Example CPU @ 2.0 GHz",
        "Attempt 2 resumed from step 60.",
    ):
        assert part in text, part


def test_it_says_what_was_scored_and_how_much_of_it_is_shown(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    document = json.loads((run / "evaluation.json").read_text())
    tried = {"0": share(4, 16), "3": share(8, 16)}
    document["base"]["prompt"] = {"shots": 3, "tried": tried}
    document["test_set"] = [{"name": "datasets/test.jsonl", "sha256": "7" * 64}]
    document["comparison"] = {"difference": 0.7, "low": 0.6, "high": 0.8, "better": 17, "worse": 0}
    document["failures"][0]["adapter"]["text"] = "\n\n\n"
    document["seconds"] = 61.0
    (run / "evaluation.json").write_text(json.dumps(document))
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps({**plan, "description": "Answers <questions> by SQL."}))
    words = text_of(run)
    for part in (
        "Answers <questions> by SQL.",
        "The base is scored with 3 examples in its prompt, chosen on 16 validation rows: "
        "25.0% with 0 and 50.0% with 3.",
        "datasets/test.jsonl",
        "7" * 64,
        "What it learnt: right where the base is wrong (1 of 17)",
        "What it got wrong (1 of 99)",
        "only white space",
        "6m37stime in training, validation and saving",
        "1m01stime in scoring",
        "1,966,080tokens",
    ):
        assert part in words, part
    (run / "answers.jsonl").touch()
    assert "What it got wrong (1 of 99; all in answers.jsonl)" in text_of(run)
    del document["comparison"], document["test_set"]
    del document["base"]["prompt"]["tried"]["3"]
    (run / "evaluation.json").write_text(json.dumps(document))
    words = text_of(run)
    assert "where the base is wrong (" not in words and "test.jsonl" not in words
    assert "examples in its prompt" not in words


def test_each_test_set_is_shown_under_its_name(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    document = json.loads((run / "evaluation.json").read_text())
    paired = {"difference": 0.1, "low": 0.02, "high": 0.18, "better": 13, "worse": 1}
    people = {
        "rows": 120,
        "test_set": [{"name": "datasets/people.jsonl", "sha256": "8" * 64}],
        "base": share(3, 120),
        "adapter": share(15, 120),
        "comparison": paired,
        "by_tag": [{"name": "a shop", "base": share(1, 20), "adapter": share(4, 20)}],
        "failures": [{**document["failures"][0], "prompt": "How many tracks are longer than 300 seconds?"}],
    }
    document["test_sets"] = {"people": people, "<i>odd": people}
    (run / "evaluation.json").write_text(json.dumps(document))
    words = text_of(run)
    for part in (
        "75.2% of 400 test rows right by the adapter",
        "12.5% of 120 rows of the further test set people right by the adapter, judged by the sql scorer",
        "+10.0 points (95%: +2.0 to +18.0); better on 13 rows, worse on 1.",
        "Scores by level and tag, test set people",
        "a shop",
        "What it got wrong, test set people (1 of 105)",
        "How many tracks are longer than 300 seconds?",
        "datasets/people.jsonl",
        "8" * 64,
        "of the further test set <i>odd right",
    ):
        assert part in words, part
    page = write_index(tmp_path / "report.html", [run]).read_text()
    assert "<small>people: base 2.5%, adapter 12.5%</small>" in page
    assert "&lt;i&gt;odd: base" in page and "<i>odd" not in page
    del document["test_sets"]
    (run / "evaluation.json").write_text(json.dumps(document))
    assert "further test set" not in write_index(tmp_path / "report.html", [run]).read_text()
    assert "further test set" not in text_of(run)


def test_further_test_sets_that_are_not_shown_are_named(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    document = json.loads((run / "evaluation.json").read_text())

    def words(*names: str) -> str:
        document["test_sets"] = {name: {"rows": 120, "adapter": share(15, 120)} for name in names}
        (run / "evaluation.json").write_text(json.dumps(document))
        return text_of(run)

    eight = [f"set{number}" for number in range(8)]
    assert "in evaluation.json" not in words(*eight)
    assert "1 more test set is in evaluation.json: set7" in words("<i>t", *eight)
    assert "2 more test sets are in evaluation.json: set8, set9" in words(*eight, "set8", "set9")
    fifty = [f"t{number:02}" for number in range(50)]
    assert "t48, t49" in words(*eight, *fifty) and "t49, …" not in words(*eight, *fifty)
    assert "51 more test sets" in words(*eight, *fifty, "u") and "t49, …" in words(*eight, *fifty, "u")


def test_it_says_that_a_base_was_asked_without_examples(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    document = json.loads((run / "evaluation.json").read_text())
    words = "The base is scored without examples in its prompt: there were no rows to choose by."
    document["base"]["prompt"] = {"shots": 0, "tried": {}}
    (run / "evaluation.json").write_text(json.dumps(document))
    assert words in text_of(run)
    document["base"]["prompt"] = {"shots": 0, "tried": {"0": share(4, 16), "3": share(3, 16)}}
    (run / "evaluation.json").write_text(json.dumps(document))
    assert words not in text_of(run)


def test_what_the_adapter_is_compared_with_is_a_third_column(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    document = json.loads((run / "evaluation.json").read_text())
    assert "compared" not in text_of(run)
    paired = {"difference": -0.1, "low": -0.2, "high": 0.02, "better": 5, "worse": 45}
    score = {
        **share(340, 400),
        "unscored": 2,
        "unparsed": {"answers": 50, "cut": 0},
        "prompt": {"shots": 3, "tried": {"0": share(1, 9), "3": share(2, 9)}},
    }
    document["against"] = {"name": "<i>larger", "score": score, "comparison": paired}
    document["by_tag"] = [
        {"name": "join", "base": share(1, 50), "adapter": share(30, 50), "against": share(41, 50)}
    ]
    (run / "evaluation.json").write_text(json.dumps(document))
    words = text_of(run)
    for part in (
        "<i>larger: 85.0%",
        "The adapter less <i>larger: -9.8 points (95%: -20.0 to +2.0), so chance may explain it",
        "<i>larger is scored with 3 examples in its prompt",
        "2 answers of <i>larger were not scored",
        "50 of 60 wrong answers of <i>larger do not parse",
        "82.0%",
    ):
        assert part in words, part
    page = write_report(run).read_text()
    assert "compared 82.0%" in page and "<i>larger" not in page


def test_sampled_answers_are_shown_with_their_vote(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    document = json.loads((run / "evaluation.json").read_text())
    assert "Sampled answers" not in text_of(run)
    passes = [{"k": k, **share(right, 400)} for k, right in ((1, 290), (2, 310), (4, 330), (8, 350))]
    line = {"name": "<b>join", "pass_at": passes, "vote": share(25, 50)}
    sampled = {"per_row": 8, "temperature": 0.7, "pass_at": passes, "vote": share(320, 400)}
    document["samples"] = {**sampled, "by_level": [], "by_tag": [line, {"name": "left out", "pass_at": []}]}
    (run / "evaluation.json").write_text(json.dumps(document))
    words = text_of(run)
    for part in (
        "Sampled answers",
        "8 answers of the adapter to each row, sampled at temperature 0.7.",
        "pass@1",
        "72.5% (95%:",
        "pass@8",
        "87.5% (95%:",
        "vote",
        "80.0% (95%:",
        "<b>join72.5%87.5%50.0%50",
    ):
        assert part in words, part
    assert "left out" not in words


def test_a_mean_score_is_named_and_compared_row_by_row(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    document = json.loads((run / "evaluation.json").read_text())
    paired = {"difference": 0.7, "low": 0.65, "high": 0.75, "better": 290, "worse": 10}
    document |= {"scorer": "score.py:score", "measure": "mean score", "comparison": paired}
    document["adapter"] |= {"unscored": 3, "unparsed": {"answers": 20, "cut": 4}}
    document["failures"][0]["adapter"] |= {"score": 0.4, "reason": "two of five"}
    (run / "evaluation.json").write_text(json.dumps(document))
    words = text_of(run)
    for part in (
        "mean score of the adapter on 400 test rows, judged by the score.py:score scorer",
        "+70.0 points (95%: +65.0 to +75.0); better on 290 rows, worse on 10.",
        "3 answers of the adapter were not scored and count as 0.",
        "wrong answers of the adapter do not parse, 4 of them cut at max_new_tokens.",
        "40%: two of five",
        "better than the base",
    ):
        assert part in words, part
    assert "the intervals" not in words
    paired |= {"low": -0.1}
    (run / "evaluation.json").write_text(json.dumps({**document, "comparison": paired}))
    assert "(95%: -10.0 to +75.0), so chance may explain it" in text_of(run)


def test_a_classification_has_its_classes_and_a_matrix(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    document = json.loads((run / "evaluation.json").read_text())
    labels = ["<b>yes</b>", "no"]
    by_label = [
        {"label": label, "rows": 200, "precision": 0.625, "recall": 0.5, "f1": f1}
        for label, f1 in zip(labels, (0.55, 0.65), strict=True)
    ]
    side = {"macro_f1": 0.6, "by_label": by_label, "confusion": [[100, 60, 40], [50, 123, 27]]}
    document["classes"] = {"labels": labels, "base": None, "adapter": side}
    (run / "evaluation.json").write_text(json.dumps(document))
    words = text_of(run)
    for part in (
        "Macro F1, the mean of the labels' F1: adapter 60.0%.",
        "<b>yes</b>",
        "62.5%",
        "65.0%",
        "123",
    ):
        assert part in words, part
    assert "Confusion matrix of the adapter" in words and "none or several" in words
    assert "Confusion matrix of the base" not in words
    side |= {"confusion": [], "by_label": []}
    (run / "evaluation.json").write_text(json.dumps(document))
    assert "Macro F1" in text_of(run), "damaged tables leave the rest"


def test_what_models_and_data_say_is_text(written: tuple[str, Page]) -> None:
    html, page = written
    assert "<b>more</b>" not in html and "<b>more</b>" in "".join(page.words)
    assert "alert(1)" in "".join(page.words)


def test_hidden_characters_turn_no_words_of_the_report_and_are_named_in_answers(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    for file, key in (("run.json", "recipe"), ("plan.json", "recipe")):
        document = json.loads((run / file).read_text())
        document[key] |= {"expert": "sql\u202eevil"}
        (run / file).write_text(json.dumps(document))
    document = json.loads((run / "evaluation.json").read_text())
    document |= {"scorer": "score\u2066r", "test_sets": {"peo\u202bple": document["adapter"]}}
    document["failures"][0] |= {
        "tags": ["ta\u202dg"],
        "prompt": "a\u200bprompt\r\nof \U0001f468\u200d\U0001f469\x1b",
    }
    document["failures"][0]["adapter"] |= {"text": "an\u202eswer", "reason": "no \u2067reason"}
    document["by_tag"][0]["name"] = "join\u202e"
    (run / "evaluation.json").write_text(json.dumps(document))
    html = write_report(run).read_bytes().decode()
    assert html == visible(html) and "\r" not in html
    for part in (
        "<title>sql\ufffdevil</title>",
        "<h1>sql\ufffdevil",
        "judged by the score\ufffdr scorer",
        "<span>ta\ufffdg</span>",
        "<pre>a⟨U+200B⟩prompt\nof \U0001f468\u200d\U0001f469⟨U+001B⟩</pre>",
        "<pre>an⟨U+202E⟩swer</pre>",
        "adapter: no \ufffdreason",
        ">join\ufffd</td>",
    ):
        assert part in html, part


def test_it_is_drawn_for_light_and_dark_and_for_narrow_screens(written: tuple[str, Page]) -> None:
    html, page = written
    assert "prefers-color-scheme: dark" in html and "max-width: 620px" in html
    assert ("meta", "name", "viewport") in page.attributes
    labels = [value for tag, name, value in page.attributes if tag == "svg" and name == "aria-label"]
    assert any(label.startswith("Loss in nats per token: training from 2") for label in labels)
    titles = (
        "Loss",
        "Accuracy",
        "Learning rate",
        "Throughput",
        "Tokens",
        "Memory",
        "Gradient",
        "Document lengths",
    )
    assert all(any(label.startswith(title) for label in labels) for title in titles)
    assert all(labels), "a picture without words"


def test_steps_that_a_later_attempt_repeats_are_dropped(tmp_path: Path) -> None:
    run = read_run(sample_run(tmp_path))
    assert [step for step, _ in run.steps.series("loss")] == list(range(1, 121))
    assert [step for step, _ in run.steps.series("lr")] == list(range(1, 121))
    assert run.attempts == 2
    steps = [noted.what.step for noted in run.checkpoints if isinstance(noted.what, Checkpoint)]
    assert steps == [20, 40, 60, 80, 100, 120]


def test_an_evaluation_that_a_resumed_run_repeats_is_one_point(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    before = read_run(run)
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    bests = [noted.what.step for noted in before.checkpoints if isinstance(noted.what, Best)]
    assert bests[-1] == before.evaluations[-1].step
    repeated = [one for one in events if one["body"]["type"] in ("evaluated", "best")][-2:]
    started = {"type": "started", "contract": 1, "stage": "train", "pid": 1, "recipe_digest": "a" * 64}
    resumed = {"time": 2.0, "attempt": 3, "body": {**started, "resumed_from": bests[-1]}}
    (run / "events.jsonl").write_text("\n".join(map(json.dumps, [*events, resumed, *repeated])))
    after = read_run(run)
    assert after.evaluations == before.evaluations
    assert [noted.what.step for noted in after.checkpoints if isinstance(noted.what, Best)] == bests


def test_a_run_that_is_under_way_or_failed_has_a_report_too(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    lines = (run / "events.jsonl").read_text().splitlines()
    assert 'class="state good">finished' in write_report(run).read_text()
    (run / "events.jsonl").write_text("\n".join(lines[:-1]))
    assert 'class="state good">finished' in write_report(run).read_text(), (
        "run.json comes before the last event"
    )
    started = {"type": "started", "contract": 1, "stage": "train", "pid": 1, "recipe_digest": "a" * 64}
    refused = {"type": "failed", "exit": 2, "code": "other-recipe", "message": "Another recipe", "hint": None}
    later = [{"time": 2.0, "attempt": 3, "body": {**started, "resumed_from": 120}}]
    later.append({"time": 3.0, "attempt": 3, "body": refused})
    (run / "events.jsonl").write_text("\n".join([*lines, *map(json.dumps, later)]))
    html = write_report(run).read_text()
    assert 'class="state good">finished' in html and "Another recipe" in html, "a refusal harms nothing"
    (run / "run.json").unlink()
    (run / "events.jsonl").write_text("\n".join(lines[:40]) + '\n{"time": 1, "bo')
    assert "not finished" in write_report(run).read_text()
    failed = {"type": "failed", "exit": 4, "code": "storage", "message": "Disk full", "hint": "Free some"}
    event = {"time": 1.0, "attempt": 1, "body": failed}
    (run / "events.jsonl").write_text("\n".join(lines[:40]) + "\n" + json.dumps(event) + "\n")
    html = write_report(run).read_text()
    assert 'class="state bad">failed' in html and "Disk full<small>Free some</small>" in html


def test_a_run_that_was_stopped_is_not_said_to_have_failed(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    (run / "run.json").unlink()
    lines = (run / "events.jsonl").read_text().splitlines()
    for exit_code, word in ((130, "stopped"), (143, "stopped"), (1, "failed")):
        ending = {"type": "failed", "exit": exit_code, "code": "x", "message": "The end", "hint": None}
        event = {"time": 1.0, "attempt": 1, "body": ending}
        (run / "events.jsonl").write_text("\n".join([*lines[:40], json.dumps(event)]) + "\n")
        assert f">{word}</span>" in write_report(run).read_text()
        assert f"{word}The end" in text_of(run)


def test_validation_rows_are_scored_and_not_learned_from(tmp_path: Path) -> None:
    folder = sample_run(tmp_path)
    cache = read_run(folder).cache.model_dump(mode="json")
    train, validation = cache["sources"]
    train["supervised_tokens"], validation["supervised_tokens"] = 31_377, 1_224
    train_split = cache["splits"]["train"]
    cache["splits"]["validation"] = {**train_split, "tokens": 6_138, "supervised_tokens": 1_224, "fill": None}

    def words() -> str:
        run = read_run(folder)
        run.cache = CacheRecord.model_validate(cache)
        page = Page()
        page.feed(rows_and_tokens(run))
        return "".join(page.words)

    assert "tokens learned from31,377tokens scored1,224" in words()
    assert "1,224 scored, 4,914 only read" in words()
    # The rows that `validation_split` holds out are counted with the training file's.
    cache["sources"] = [train]
    assert "tokens learned from or scored31,377" in words()
    del cache["splits"]["validation"]
    assert "or scored" not in words() and "tokens scored" not in words()


@pytest.mark.parametrize("name", ["plan.json", "run.json", "evaluation.json", "events.jsonl"])
@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\xff\x00"])
def test_a_gap_in_the_records_is_left_out(tmp_path: Path, name: str, content: bytes | None) -> None:
    run = sample_run(tmp_path)
    (run / name).unlink()
    if content is not None:
        (run / name).write_bytes(content)
    page = Page()
    page.feed(write_report(run).read_text())
    assert page.open == []


def test_a_fallback_from_the_fast_encoder_is_reported_with_its_cost(tmp_path: Path) -> None:
    folder = sample_run(tmp_path)
    record = json.loads((folder / "run.json").read_text())
    record["result"]["slow_encoder"] = {"reason": "it <differs>", "words": "9.5 times slower", "rows": 4}
    (folder / "run.json").write_text(json.dumps(record))
    page = write_report(folder).read_text()
    assert "9.5 times slower; the fast encoder is not used: it &lt;differs&gt;" in page


@pytest.mark.parametrize("foreign", [False, True])
def test_the_token_cache_is_found_by_the_key_that_a_build_gives_it(tmp_path: Path, foreign: bool) -> None:
    folder = sample_run(tmp_path)
    workshop = Workshop(tmp_path, write_base(tmp_path / "base", llama3_like()), tmp_path / "home")
    cache = workshop.build(workshop.jsonl([{"prompt": "Q", "completion": "A"}] * 9))
    if foreign:
        (cache.folder / "cache.json").unlink()
        (cache.folder / "dataset_dict.json").write_text("{}")
        cache = workshop.build(tmp_path / "train.jsonl", {"machine.paths.cache": str(cache.folder)})
    for name, keys in (
        ("run.json", {"cache_key": cache.key}),
        ("plan.json", {"machine": {"paths": {"cache": str(tmp_path / "cache"), "home": str(workshop.home)}}}),
    ):
        document = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(document | keys))
    assert read_run(folder).cache.splits["train"].documents == 9
    # Eight of the nine rows repeat the first; a cache that another tool made was not compared.
    assert ("copied rowsexactnearof rowswithin train809" in text_of(folder)) is not foreign


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no run"):
        write_report(tmp_path)


def test_a_folder_that_cannot_be_written_is_a_storage_error(tmp_path: Path, monkeypatch) -> None:
    run = sample_run(tmp_path)

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", refuse)
    with pytest.raises(Storage):
        write_report(run)


def test_from_the_command_line_without_torch(tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    script = (
        "import sys; from expert_worker.report.__main__ import main;"
        f"code = main([{str(run)!r}]); assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(run / "report.html")


def test_a_long_curve_keeps_its_spikes() -> None:
    points = [(float(step), 1.0) for step in range(10_000)]
    points[4321] = (4321.0, 99.0)
    drawn = thinned(points, 600)
    assert len(drawn) < 1300 and (4321.0, 99.0) in drawn and drawn[-1] == points[-1]
    assert drawn == sorted(drawn)


def test_flat_single_and_empty_curves() -> None:
    assert curve("x", "y", [Line("x", [])]) == ""
    for points in ([(1.0, 5.0)], [(1.0, 0.0), (2.0, 0.0)], [(3.0, -2.0), (4.0, -2.0)]):
        for from_zero in (False, True):
            drawn = curve("x", "y", [Line("x", points)], from_zero=from_zero)
            assert "nan" not in drawn and "<svg" in drawn
    assert lengths("x", []) == "" and lengths("x", [(1, 0)]) == ""
    assert "nan" not in lengths("x", [(1, 5), (2, 3), (4, 1)], [1, 1, 1, 1, 2, 2, 4])


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1e-6, 3e-6), (-5, 12345), (0.999, 1.001), (0, 4e7)])
def test_ticks_are_inside_the_axis_few_and_labelled(low: float, high: float) -> None:
    axis = axis_over([low, high], 5)
    assert 2 <= len(axis.ticks) <= 7 and len(set(axis.labels)) == len(axis.labels)
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)
    power = axis.factor.removeprefix("×10").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    for tick, label in zip(axis.ticks, axis.labels, strict=True):
        assert float(label.replace(",", "")) * 10.0 ** int(power or 0) == pytest.approx(
            tick, rel=1e-6, abs=1e-12
        )


def test_an_axis_from_zero_begins_there_and_steps_are_whole() -> None:
    assert axis_over([3.0, 9.0], 4, from_zero=True).low == 0
    assert axis_over([0.0, 0.0], 4, from_zero=True).low == 0
    assert steps_axis([1.0, 2.0, 3.0]).labels == ("1", "2", "3")


def test_bins_begin_where_the_one_before_ends() -> None:
    fine = [(bin.least, bin.most, bin.count) for bin in bins_of([(59, 0), (64, 7), (70, 0), (76, 2)])]
    assert fine == [(59, 64, 7), (64, 70, 0), (70, 76, 2)]
    doubled = [(bin.least, bin.most) for bin in bins_of([(64, 7), (256, 1)])]
    assert doubled == [(32, 64), (128, 256)]
    assert bins_of([(0, 0), (1, 3), (2, 1)])[0].words == "1 tokens<br>3 documents"
    assert "nan" not in lengths("x", [(0, 0), (1, 3)], [1, 1, 1]) and bins_of([]) == []


@pytest.mark.parametrize("length", [1, 2, 7, 67, 72, 91, 1_000, 4_097])
def test_lengths_have_ticks_however_close_they_are(length: int) -> None:
    for longest in (length, length + 1, length + max(2, length // 20), length * 2):
        counts = [(length - 1, 0), *((bound, 3) for bound in range(length, longest + 1))]
        labels = re.findall(r'class="along" style="left:([\d.]+)%">([\d,]+)<', lengths("x", counts))
        assert labels and all(0 <= float(left) <= 100 for left, _ in labels), (length, longest)
        assert len({label for _, label in labels}) == len(labels)
        if longest >= length + 4:
            assert len(labels) >= 3, (length, longest, labels)


def test_the_calm_line_is_the_mean_of_the_steps_before() -> None:
    points = [(float(step), float(step % 2)) for step in range(1, 21)]
    assert trailing_mean(points, 10) == [(float(step), 0.5) for step in range(10, 21)]


def test_words_that_differ_are_set_off_and_a_text_altogether_other_is_not() -> None:
    assert marked("SELECT a FROM <t>", "SELECT b FROM <t>") == "SELECT <mark>a</mark> FROM &lt;t&gt;"
    assert marked("SELECT FROM t", "SELECT name FROM t").count("<mark") == 1
    assert marked("I cannot do that", "SELECT b FROM t") == "I cannot do that"


def test_disjoint_intervals_are_distinguished_from_overlapping_ones() -> None:
    base, low, high = (Share(low=at, high=at + 0.2) for at in (0.1, 0.2, 0.4))
    assert apart(base, high) and apart(high, base) and not apart(base, low)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (2e-5, "2.0e-5"),
        (0.5, "0.5"),
        (311.2, "311.2"),
        (16384, "16.4k"),
        (2e6, "2.00M"),
        (2e9, "2.00G"),
    ],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert short(value) == shown
