"""What an outage of the API server means for hand-overs: when it counts, how long they rest, and that nothing else does."""

from dataclasses import replace

import pytest

from rescheduler.controller.outages import LEAST_S, MOST_S, CautiousRounds, rest_s
from rescheduler.controller.reconcile import Settings
from rescheduler.kube.reflector import End, EndKind, Reflector
from rescheduler.model.kinds import Kind

OUTAGE = [End(EndKind.BROKEN, "reset"), End(EndKind.BROKEN, "refused"), End(EndKind.DENIED, "403")]


class Spy:
    """A reconciler that notes what it is told."""

    def __init__(self):
        self.settings = Settings()
        self.told = []

    def round(self, _snapshot, now_s):
        self.told.append(self.settings.reservations.scheduler_lags_until_s)
        return now_s + 7.0


@pytest.fixture
def pods():
    machine = Reflector(Kind.POD, watch_list=False)
    machine.on_page([], "9", "", 0.0)
    return machine


def lose(machine, from_s, until_s):
    for index, end in enumerate(OUTAGE):
        machine.on_end(end, from_s + (until_s - from_s) * index / len(OUTAGE), 1.0)


def test_a_list_that_must_be_read_anew_is_told_with_the_time_that_was_lost(pods):
    lose(pods, 100.0, 108.0)
    pods.on_opened(108.0)
    pods.on_end(End(EndKind.EXPIRED, "too old"), 108.0, 1.0)
    assert pods.relisted_at_s is None
    pods.on_page([], "20", "", 109.0)
    assert (pods.relisted_at_s, pods.away_s) == (109.0, 9.0)


def test_a_watch_that_goes_on_where_it_broke_has_kept_the_order(pods):
    lose(pods, 100.0, 108.0)
    pods.on_opened(108.0)
    pods.on_bookmark("12", initial_end=False, now_s=108.5)
    assert pods.relisted_at_s is None
    pods.on_end(End(EndKind.EXPIRED, "too old"), 300.0, 1.0)
    pods.on_page([], "20", "", 301.0)
    assert pods.away_s == 1.0, "the outage before has nothing to do with it"


def test_the_first_list_is_no_outage():
    machine = Reflector(Kind.POD, watch_list=False)
    machine.on_end(End(EndKind.BROKEN), 0.0, 1.0)
    machine.on_page([], "9", "", 5.0)
    assert machine.relisted_at_s is None


@pytest.mark.parametrize(("away_s", "expected"), [(0.0, LEAST_S), (5.0, 20.0), (1_000.0, MOST_S)])
def test_hand_overs_rest_for_longer_after_a_longer_outage(away_s, expected):
    assert rest_s(away_s) == expected


def test_the_rest_ends_by_itself_and_a_new_configuration_does_not_end_it():
    spy, found = Spy(), (2.0, 5.0)
    rounds = CautiousRounds(spy, lambda: found)
    assert rounds.round(None, 1_000.0) == 1_007.0
    spy.settings = replace(Settings(), reservations=replace(Settings().reservations, gate_limit_s=33.0))
    rounds.round(None, 1_000.0)
    found = (20.0, 5.0)
    rounds.round(None, 1_018.0)
    assert spy.told == [1_018.0, 1_018.0, 0.0]
    assert spy.settings.reservations.gate_limit_s == 33.0
