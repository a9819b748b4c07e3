"""Where the time of a step went."""

from scene import put_data, train


def test_a_step_says_where_its_time_went(tmp_path, monkeypatch):
    put_data(monkeypatch)
    steps = train(tmp_path, {"recipe.schedule.duration": {"unit": "steps", "value": 3}}).of("progress")
    assert len(steps) == 3
    for step in steps:
        assert step.host_launch == step.device_compute > 0
        assert step.transfer >= 0
        assert step.data_wait + step.transfer + step.host_launch <= step.seconds
