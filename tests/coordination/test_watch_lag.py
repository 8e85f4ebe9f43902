"""How far the watches are behind, measured by own writes."""

import pytest

from rescheduler.coordination.expectations import Touched
from rescheduler.coordination.watch_lag import MOST_LAG_S, PROVEN_S, WatchLag
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey

POD, OTHER = ObjectKey("rescheduler", "p"), ObjectKey("rescheduler", "q")


def wrote(version, key=POD, kind=Kind.POD):
    return (Touched(kind=kind, key=key, version=str(version)),)


def cache(**versions):
    known = {"p": POD, "q": OTHER}
    shown = {known[name]: (str(version), False) for name, version in versions.items()}
    return lambda _, key: shown.get(key)


@pytest.fixture
def lag():
    return WatchLag()


def test_before_anything_is_measured_nothing_is_known(lag):
    assert (lag.observed(0.0).late, lag.observed(0.0).proven) == ("", False)


@pytest.mark.parametrize(("after_s", "late"), [(0.0, False), (MOST_LAG_S, False), (MOST_LAG_S + 1, True)])
def test_a_write_that_is_seen_measures_the_watch(lag, after_s, late):
    lag.wrote(wrote(7), 100.0)
    lag.follow(cache(), 100.0 + after_s)
    lag.follow(cache(p=7), 100.0 + after_s)
    found = lag.observed(100.0 + after_s)
    assert (bool(found.late), found.proven) == (late, True)
    assert lag.observed(100.0 + after_s + PROVEN_S + 1).proven is False


def test_a_write_that_is_not_seen_is_late_until_it_may_be_gone(lag):
    lag.wrote(wrote(7), 100.0)
    lag.follow(cache(p=6), 112.0)
    assert "written 12 s ago is not seen yet" in lag.observed(112.0).late
    lag.follow(cache(p=6), 161.0)
    assert lag.observed(161.0).late == ""


def test_a_later_write_that_is_seen_stands_for_the_ones_before_it(lag):
    lag.wrote(wrote(7), 100.0)
    lag.wrote(wrote(8, OTHER), 111.0)
    lag.follow(cache(q=8), 112.0)
    assert lag.observed(112.0) == lag.observed(113.0)
    assert lag.observed(112.0).late == ""


def test_after_a_move_that_failed_with_its_pod_evicted_it_is_measured_anew(lag):
    lag.wrote(wrote(7), 100.0)
    lag.follow(cache(p=7), 101.0)
    lag.failed(102.0)
    assert not lag.observed(103.0).proven
    lag.wrote(wrote(8), 104.0)
    lag.follow(cache(p=8), 105.0)
    assert lag.observed(105.0).proven


def test_other_kinds_make_it_late_and_prove_nothing_of_pods(lag):
    lag.wrote(wrote(7, kind=Kind.POD_MIGRATION), 100.0)
    lag.follow(cache(p=7), 109.0)
    assert "PodMigration was seen 9 s after" in lag.observed(109.0).late
    assert not lag.observed(109.0).proven
