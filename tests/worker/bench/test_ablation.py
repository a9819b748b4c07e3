"""The page of an ablation, and the scripts' manners."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]

MEASURED = {"tokens_per_second": 400.0, "peak_bytes": 1 << 30, "ready_seconds": 9.0}
RESULTS = {
    "ok": True, "expert": "expert-x", "base": "b", "device": {"name": "CPU"}, "dtype": "bf16",
    "rows_per_step": 2, "max_seq_length": 64, "steps": 4, "planned": MEASURED, "planned_again": MEASURED,
    "variants": [
        {"name": "chunked <loss> off", "measured": {**MEASURED, "tokens_per_second": 200.0},
         "of_planned": 0.5, "losses": "equal", "apart": 0.0},
        {"name": "base in int4", "measured": MEASURED, "of_planned": 1.0, "losses": "apart", "apart": 0.071},
        {"name": "TF32 off", "measured": None, "why": "TF32 is a format of CUDA's tensor cores"},
    ],
}  # fmt: skip


def test_the_page_shows_what_was_measured_and_why_the_rest_was_not(bench, tmp_path):
    (tmp_path / "ablation.json").write_text(json.dumps(RESULTS))
    done = bench("ablation", "ablation.json", "--output", "a.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "a.html").read_text()
    assert (
        "chunked &lt;loss&gt; off" in page
        and "0.50x" in page
        and page.count("width:50.0%") == 1
        and page.count("width:100.0%") == 5
    )
    assert "7.1% apart" in page
    assert "TF32 is a format of CUDA&#x27;s tensor cores" in page


def test_a_variant_that_did_not_fit_says_so(bench, tmp_path):
    measured = {**MEASURED, "fits": False}
    variants = [
        {"name": "large", "measured": measured, "of_planned": 1.0, "losses": "equal"},
        {"name": "fitting", "measured": {**MEASURED, "fits": True}, "of_planned": 1.0, "losses": "equal"},
    ]
    (tmp_path / "ablation.json").write_text(json.dumps({**RESULTS, "variants": variants}))
    assert bench("ablation", "ablation.json", "--output", "a.html").returncode == 0
    page = (tmp_path / "a.html").read_text()
    assert page.count(">equal, did not fit and was split<") == 1 and page.count(">equal<") == 1


def test_losses_that_are_not_finite_have_no_distance(bench, tmp_path):
    variant = {"name": "x", "measured": MEASURED, "of_planned": None, "losses": "apart", "apart": None}
    (tmp_path / "ablation.json").write_text(json.dumps({**RESULTS, "variants": [variant]}))
    done = bench("ablation", "ablation.json", "--output", "a.html")
    assert done.returncode == 0, done.stderr
    assert ">apart<" in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"planned": 1, "variants": 2}', json.dumps({**RESULTS, "variants": [1]})]
)
def test_files_other_than_results_are_refused(bench, tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    done = bench("ablation", "x.json", "--output", "a.html")
    assert done.returncode == 2 and "Traceback" not in done.stderr and "x.json" in done.stderr


def script(name, *words):
    command = [sys.executable, str(REPOSITORY / "scripts" / f"{name}.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["benchmark_training", "clear_cuda_cache", "test_optimizations"])
def test_scripts_explain_themselves_and_refuse_what_they_do_not_know(name):
    assert "--json" in script(name, "--help").stdout
    wrong = script(name, "--bogus")
    assert wrong.returncode == 2 and "--bogus" in wrong.stderr and "Traceback" not in wrong.stderr


@pytest.mark.parametrize("name", ["benchmark_training", "clear_cuda_cache"])
def test_a_python_without_the_packages_is_reported(name):
    command = [sys.executable, "-S", str(REPOSITORY / "scripts" / f"{name}.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "has no package" in done.stderr and "make setup" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_names_what_is_missing(tmp_path):
    done = script("test_optimizations", "--cli", str(tmp_path / "none"))
    assert done.returncode == 3 and "hint: run `make setup`" in done.stderr
