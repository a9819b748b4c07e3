from expert_worker.train.trainer import ThroughputMeter


def test_throughput_is_unknown_until_a_step_has_followed_the_first():
    meter = ThroughputMeter()
    assert (meter.tokens_per_second, meter.eta(3)) == (None, None)
    meter.add(500, 9.0)
    assert (meter.tokens_per_second, meter.eta(3)) == (None, None)


def test_the_first_step_does_not_count():
    meter = ThroughputMeter()
    meter.add(500, 9.0)
    meter.add(600, 2.0)
    assert (meter.tokens_per_second, meter.eta(3)) == (300.0, 6.0)
