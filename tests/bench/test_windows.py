"""Volcano's story over days of virtual time (seven in the nightly run): with a window the pods start at once each day, without it they do not."""

import pytest

from bench.windows import Story
from tests.seeds import NIGHTLY

DAYS, PODS, AGO = (7, 3, "8h") if NIGHTLY else (1, 2, "4h")


@pytest.mark.slow
def test_each_day_the_pods_start_at_once_and_no_job_is_disturbed():
    found = Story(nodes=6, pods=PODS, seed=3, window=True, ago=AGO).run(DAYS)
    assert [day.gathered for day in found.days] == [f"{PODS}/{PODS}"] * DAYS
    assert all(len(day.started_s) == PODS and max(day.started_s) <= 5 for day in found.days)
    assert (found.lost, found.leftovers) == (0, 0)
    assert found.jobs > 20 * DAYS, "the cluster is not idle"
    assert min(found.used) > 0.8


def test_without_a_window_they_do_not_start():
    found = Story(nodes=6, pods=PODS, seed=3, window=False).run(min(DAYS, 2))
    assert sum(len(day.started_s) for day in found.days) <= 1
    assert found.lost == 0
