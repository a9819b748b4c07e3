"""The real binding on a fake driver, and without any driver."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from written_runs import step, write_run


def watched(bench, *words, **more):
    done = bench("watch", "--interval", "0.1", "--duration", "0.3", "--json", *words, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_gpu_is_read_through_the_binding(bench, driver):
    result = watched(bench, "--alone", driver=driver)
    assert result["gpu"] == {"found": True, "driver": "999.1", "names": ["Fake GPU"]}
    mean = {name: figures["mean"] for name, figures in result["statistics"].items()}
    assert mean["gpu0.utilization"] == 35 and mean["gpu0.memory_utilization"] == 12
    assert mean["gpu0.memory_used"] == 9000 << 20 and mean["gpu0.memory_total"] == 24000 << 20
    assert mean["gpu0.temperature"] == 61 and mean["gpu0.power_watts"] == 180.5
    assert mean["gpu0.sm_clock_mhz"] == 1980 and mean["gpu0.memory_clock_mhz"] == 1300


def test_values_that_a_card_does_not_report_are_left_out(bench, driver):
    result = watched(
        bench, "--alone", driver=driver, FAKE_BUSY=None, FAKE_MILLIWATTS=None, FAKE_TOTAL_MIB=None
    )
    assert "gpu0.temperature" in result["statistics"]
    missing = {"gpu0.utilization", "gpu0.power_watts", "gpu0.memory_used", "gpu0.memory_total"}
    assert not missing & result["statistics"].keys()


def test_a_driver_that_does_not_answer_is_reported(bench, driver):
    result = watched(bench, "--alone", driver=driver, FAKE_BROKEN=1)
    assert result["gpu"]["found"] is False and "does not answer" in result["gpu"]["reason"]


def test_without_a_driver_the_processor_is_measured(bench):
    result = watched(bench, "--alone")
    assert result["gpu"]["found"] is False and "no NVIDIA driver" in result["gpu"]["reason"]
    assert result["statistics"]["machine.cpu_percent"]["max"] >= 0
    assert result["verdict"]["code"] == "alone"


def test_heat_is_the_verdict_and_comes_before_the_rest(bench, driver, tmp_path):
    later = time.time() + 60
    run = write_run(tmp_path / "run", [step(later, 1, data_wait=0.5)], "cuda")
    result = watched(bench, "--run", run, driver=driver, FAKE_REASONS=0x44, FAKE_CELSIUS=91)
    codes = [finding["code"] for finding in result["findings"]]
    assert codes[:2] == ["thermal", "data-wait"]
    assert result["verdict"]["measured"] == {"share": 1.0, "temperature": 91.0}


def test_spilled_memory_is_found_from_the_reserved_bytes(bench, driver, tmp_path):
    later = time.time() + 60
    reserved = step(later, 1, memory_reserved=30000 << 20)
    result = watched(bench, "--run", write_run(tmp_path / "run", [reserved], "cuda"), driver=driver)
    assert result["verdict"]["code"] == "spill" and "21000 MiB" in result["verdict"]["message"]


def test_a_gpu_that_waits_for_the_host(bench, driver, tmp_path):
    later = time.time() + 60
    run = write_run(tmp_path / "run", [step(later, 1, host_launch=0.95, device_compute=0.96)], "cuda")
    assert watched(bench, "--run", run, driver=driver)["verdict"]["code"] == "host-bound"
    busy = watched(bench, "--run", run, driver=driver, FAKE_BUSY=97)
    assert busy["verdict"]["code"] == "compute-bound"
    moving = watched(bench, "--run", run, driver=driver, FAKE_BUSY=97, FAKE_MEMORY_BUSY=85)
    assert moving["verdict"]["code"] == "memory-bound"


def test_the_text_names_the_card_and_the_advice(bench, driver):
    done = bench("watch", "--interval", "0.1", "--duration", "0.2", "--alone", driver=driver)
    assert "GPU: Fake GPU (driver 999.1)" in done.stdout and "verdict:" in done.stdout
    assert "gpu0.utilization" in done.stdout and "p95" in done.stdout


TWO = {"FAKE_CARDS": 2, "FAKE_BUSY": 35, "FAKE_BUSY_OF_SECOND": 97}
SEEN = [(None, 35), ("0", 35), ("1", 97), ("1,0", 97), (" GPU-2222", 97), ("GPU-1111-0000", 35)]


@pytest.mark.parametrize(("visible", "busy"), SEEN)
def test_the_gpu_of_the_watched_run_is_read(bench, driver, tmp_path, visible, busy):
    later = time.time() + 60
    run = write_run(tmp_path / "run", [step(later, 1, host_launch=0.95, device_compute=0.96)], "cuda")
    environment = {name: it for name, it in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment |= {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
    words = ["-m", "expert_worker", "train", "--plan", str(run / "plan.json")]
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *words], env=environment)
    try:
        result = watched(bench, "--run", run, driver=driver, **TWO)
    finally:
        worker.kill()
        worker.wait()
    assert result["verdict"]["code"] == ("compute-bound" if busy == 97 else "host-bound")


@pytest.mark.parametrize(("visible", "busy"), [*SEEN, ("GPU-", None), ("2", None), ("", None)])
def test_the_meter_reads_the_gpu_that_cuda_shows(driver, visible, busy):
    measure = (
        "import time; from expert_worker.bench.sample import GpuMeter\n"
        "with GpuMeter(0) as gpu: time.sleep(0.3)\n"
        "print(gpu.mean)"
    )
    environment = {name: it for name, it in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment |= {name: str(it) for name, it in TWO.items()}
    environment |= {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    environment |= {
        "PYTHONPATH": str(Path(__file__).parents[3] / "worker" / "python"),
        "LD_LIBRARY_PATH": str(driver),
    }
    done = subprocess.run(
        [sys.executable, "-c", measure], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == ("None" if busy is None else str(float(busy))), done.stderr
