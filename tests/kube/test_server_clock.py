"""The API server's time by the Date of its answers: 65 s of skew, whole seconds, several servers, clocks that are set."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.server_clock import MOST_APART_S, ServerClock, TimedTransport
from rescheduler.kube.transport import Request, Response

EPOCH_S = 1_800_000_000.0


class Machine:
    """A local clock that starts somewhere, and API servers that are ``ahead_s`` of true time."""

    def __init__(self, wall_ahead_s=0.0, monotonic_s=1_000.25):
        self.passed_s, self._wall_ahead_s, self._monotonic_s = 0.0, wall_ahead_s, monotonic_s
        self.clock = ServerClock(lambda: self._monotonic_s + self.passed_s, self.wall)

    def wall(self):
        return EPOCH_S + self.passed_s + self._wall_ahead_s

    def answer(self, *, takes_s=0.02, after_s=0.31, server_ahead_s=0.0):
        """One call, ``after_s`` after the last one."""
        self.passed_s += after_s
        sent_at_s = self.clock.clock()
        self.passed_s += takes_s / 2
        date = formatdate(int(EPOCH_S + self.passed_s + server_ahead_s), usegmt=True)
        self.passed_s += takes_s / 2
        self.clock.heard(date, sent_at_s, self.clock.clock())

    @property
    def error_s(self):
        return self.clock.now_s() - (EPOCH_S + self.passed_s)


@pytest.mark.parametrize("ahead_s", [65.0, -65.0, 86_400.0, 0.0])
def test_the_clock_of_this_machine_does_not_count(ahead_s):
    machine = Machine(wall_ahead_s=ahead_s)
    machine.answer()
    assert abs(machine.error_s) <= 0.52
    assert machine.clock.skew_s() == pytest.approx(ahead_s, abs=0.52)
    assert machine.clock.apart_s() == 0.0


def test_many_answers_tell_more_than_whole_seconds():
    machine = Machine(wall_ahead_s=65.0)
    for _ in range(40):
        machine.answer()
    assert abs(machine.error_s) <= 0.1


def test_without_any_answer_there_is_only_the_own_clock():
    assert Machine(wall_ahead_s=3.0).error_s == 3.0


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Foo 2026 00:00:00 GMT", "\ud800", "0"])
def test_a_date_that_cannot_be_read_says_nothing(date):
    machine = Machine()
    machine.clock.heard(date, 1.0, 2.0)
    assert machine.error_s == 0.0


def test_an_answer_that_comes_late_widens_nothing():
    machine = Machine()
    for _ in range(40):
        machine.answer()
    machine.answer(takes_s=30.0)
    assert abs(machine.error_s) <= 0.15


def test_servers_whose_clocks_differ_are_told_apart_and_one_of_them_is_followed():
    machine = Machine()
    for _ in range(20):
        machine.answer()
        machine.answer(server_ahead_s=9.0)
    assert machine.clock.apart_s() == pytest.approx(9.0, abs=0.4)
    assert "differ by 9 s" in machine.clock.problem()
    assert abs(machine.error_s) <= 0.1


def test_servers_that_differ_by_little_are_no_problem():
    machine = Machine()
    for _ in range(20):
        machine.answer()
        machine.answer(server_ahead_s=MOST_APART_S - 1)
    assert machine.clock.problem() == ""


def test_a_server_whose_clock_was_set_is_followed_once_nothing_speaks_for_the_old_time():
    machine = Machine()
    machine.answer()
    machine.answer(server_ahead_s=600.0)
    assert machine.clock.problem()
    for _ in range(10):
        machine.answer(after_s=15.0, server_ahead_s=600.0)
    assert machine.clock.problem() == ""
    assert machine.error_s == pytest.approx(600.0, abs=0.52)


def test_the_transport_tells_its_time(mocker):
    inner, machine = mocker.Mock(), Machine()
    inner.send.return_value = Response(200, b"", {"date": formatdate(EPOCH_S + 100, usegmt=True)})
    TimedTransport(inner, machine.clock).send(Request(method="GET", path="/version"))
    assert machine.error_s == pytest.approx(100.5)


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0.0, 40.0), st.floats(0.001, 5.0)), min_size=1, max_size=30),
)
def test_the_error_is_bounded_by_the_best_answer(ahead_s, answers):
    machine = Machine(wall_ahead_s=ahead_s)
    for after_s, takes_s in answers:
        machine.answer(after_s=after_s, takes_s=takes_s)
    best_s = min(takes_s for _, takes_s in answers)
    assert abs(machine.error_s) <= 0.5 + best_s + 0.001 * machine.passed_s
    assert machine.clock.apart_s() == 0.0
