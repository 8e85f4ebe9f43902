"""Samples in arrays: parts, means and peaks, quantiles and their errors, gaps, who is gone, and what it costs."""

import random

import numpy as np
import pytest

from rescheduler.coordination.usage_series import GONE_S, SAMPLE_S, UsageSeries
from rescheduler.model.measured import UsageStatistic
from rescheduler.model.usage import Readings
from rescheduler.model.usage_statistics import standard_error, statistic

START_S = 1_000_020.0  # a part begins here


def readings(at_s, **amounts):
    return Readings.of((ord(name), at_s, amount, 2.0 * amount) for name, amount in amounts.items())


def series(*rounds, window_s=300.0, statistic=UsageStatistic.MEAN, every_s=SAMPLE_S):
    made = UsageSeries.empty(window_s, statistic)
    for number, amounts in enumerate(rounds):
        made = made.plus(readings(START_S + number * every_s, **amounts))
    return made


def value(found, name, kind, resource=0):
    return float(statistic(found.values, kind)[resource, found.row(ord(name))])


@pytest.mark.parametrize("kind", UsageStatistic)
def test_every_statistic_is_that_of_numpy(kind):
    rng = random.Random(3)  # noqa: S311 - reproducible
    amounts = [rng.uniform(0, 4000) for _ in range(10)]
    found = series(*({"a": amount} for amount in amounts))
    expected = np.mean(amounts) if kind.part is None else np.quantile(amounts, kind.part)
    assert value(found, "a", kind) == pytest.approx(expected, rel=1e-5)
    assert value(found, "a", kind, 1) == pytest.approx(2 * expected, rel=1e-5)


def test_the_error_of_a_quantile_covers_what_chance_does():
    rng = random.Random(5)  # noqa: S311 - reproducible
    for kind in (UsageStatistic.P50, UsageStatistic.P90, UsageStatistic.PEAK):
        off = 0
        for _ in range(300):
            found = series(*({"a": 1000 + rng.uniform(-150, 150)} for _ in range(10)))
            error = standard_error(found.values, kind)[0, 0]
            true = 850 + 300 * kind.part
            off += value(found, "a", kind) - 3 * error > true
        assert off <= 3, kind


def test_a_gap_is_no_zero_and_no_sample_is_lost_by_it():
    found = series({"a": 100.0, "b": 7.0}, {"a": 300.0}, {}, {}, {"a": 500.0})
    assert value(found, "a", UsageStatistic.MEAN) == 300.0
    assert value(found, "b", UsageStatistic.MEAN) == 7.0
    assert found.number.tolist() == [3, 1]


def test_who_was_not_measured_for_long_while_others_were_is_gone():
    made = series({"a": 1.0, "b": 1.0})
    for number in range(1, 30):
        made = made.plus(readings(START_S + number * SAMPLE_S, a=1.0))
    assert made.row(ord("b")) is None
    assert GONE_S < 29 * SAMPLE_S


def test_an_outage_of_all_takes_nobody_away():
    made = series({"a": 1.0, "b": 2.0}).plus(readings(START_S + 3 * GONE_S, a=3.0, b=4.0))
    assert [value(made, name, UsageStatistic.MEAN) for name in "ab"] == [3.0, 4.0]
    assert made.number.tolist() == [1, 1]


def test_in_a_long_window_a_part_stands_for_many_samples():
    day = 86_400.0
    rounds = [{"a": 100.0}, {"a": 300.0}, {"a": 200.0}, {"a": 200.0}]
    mean = series(*rounds, window_s=day)
    assert value(mean, "a", UsageStatistic.MEAN) == 200.0
    assert mean.number.tolist() == [4]
    peak = series(*rounds, window_s=day, statistic=UsageStatistic.PEAK)
    assert value(peak, "a", UsageStatistic.PEAK) == 300.0
    again = mean.plus(readings(START_S + 3 * SAMPLE_S, a=9000.0))
    assert value(again, "a", UsageStatistic.MEAN) == 200.0


@pytest.mark.parametrize(("window_s", "most"), [(300.0, 100), (86_400.0, 410)])
def test_what_a_pod_costs(window_s, most):
    made = UsageSeries.empty(window_s, UsageStatistic.MEAN)
    found = Readings.of((key, START_S, 1.0, 1.0) for key in range(1000))
    assert made.plus(found).bytes_each <= most
