from expert_worker.train.pace import Pace


def test_nothing_is_told_of_the_pace_before_a_step_has_followed_the_first():
    pace = Pace()
    assert (pace.tokens_per_second, pace.eta(3)) == (None, None)
    pace.took(500, 9.0)
    assert (pace.tokens_per_second, pace.eta(3)) == (None, None)


def test_the_first_step_does_not_count():
    pace = Pace()
    pace.took(500, 9.0)
    pace.took(600, 2.0)
    assert (pace.tokens_per_second, pace.eta(3)) == (300.0, 6.0)
