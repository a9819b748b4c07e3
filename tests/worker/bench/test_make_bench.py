"""One table of what benchmarks gave, and the history they are kept in."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

BENCHES = Path(__file__).parents[3] / "benches"


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"benches_{name}", BENCHES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_of_a_table_come_from_its_document():
    document = {"rows": [{"what": "start-up", "against": "TRL", "ratio": 2.5}, {"what": "fill"}], "ratio": 9}
    found = list(load("summary").rows("startup", document))
    assert found == [("startup", "start-up", "TRL", "2.50x"), ("startup", "fill", "", "")]


def test_columns_line_up():
    summary = load("summary")
    lines = summary.table([("a", "one", "TRL", "1.00x"), ("longer", "two", "", "10.00x")]).splitlines()
    assert len(lines) == 3 and lines[1].endswith(" 1.00x") and len(lines[1]) == len(lines[2])


def test_results_are_added_to_the_days_file(tmp_path):
    history = load("history")
    path = history.keep({"pack": {"seconds": 1}}, tmp_path, "2026-11-21")
    before = json.loads(path.read_text())
    assert path.name == "2026-11-21-cpu.json" and before["versions"]["python"]
    path.write_text(json.dumps({**before, "results": {"demo": 1}}))
    history.keep({"load": {"ratio": 2}, "pack": {"seconds": 2}}, tmp_path, "2026-11-21")
    after = json.loads(path.read_text())
    assert after["benches"] == {"pack": {"seconds": 2}, "load": {"ratio": 2}}
    assert after["results"] == {"demo": 1}


def test_an_unknown_benchmark_is_refused_with_the_known_ones():
    command = [sys.executable, "-m", "benches", "nonsense"]
    done = subprocess.run(command, cwd=BENCHES.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "startup" in done.stderr and "Traceback" not in done.stderr
    assert "gpu" not in done.stderr.partition("there are")[2]
