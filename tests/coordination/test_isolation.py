"""Of many objects those are found of which a computation over all of them crashes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.coordination.isolation import MOST_GROUPS, isolated


class BadError(Exception):
    pass


class Computation:
    def __init__(self, groups, *guilty):
        self.groups, self.guilty, self.tries = groups, guilty, 0

    def __call__(self, out):
        self.tries += 1
        for group in self.groups:
            if group not in out and group in self.guilty:
                raise BadError(group)
        return [group for group in self.groups if group not in out]


@given(st.integers(1, 300), st.sets(st.integers(0, 299), max_size=MOST_GROUPS))
def test_those_are_left_out_that_are_to_blame_and_no_others(count, guilty):
    groups = list(range(count))
    guilty = {group for group in guilty if group < count}
    compute = Computation(groups, *guilty)
    found, bad = isolated(compute, lambda: groups)
    assert set(bad) == guilty
    assert found == [group for group in groups if group not in guilty]
    assert all(error.args == (group,) for group, error in bad.items())
    assert compute.tries <= 3 + 10 * len(guilty)


def test_who_was_to_blame_before_is_tried_first():
    compute = Computation(range(1000), 700)
    assert set(isolated(compute, lambda: range(1000), known=lambda _: {700, 4000})[1]) == {700}
    assert compute.tries == 2


def test_of_those_that_may_be_to_blame_nobody_is_left_out_who_is_not():
    compute = Computation(range(1000), 700, 20)
    found, bad = isolated(compute, lambda: range(1000), known=lambda _: [3, 20, 500, 700])
    assert set(bad) == {20, 700}
    assert 3 in found
    assert 500 in found
    assert compute.tries == 6


def test_where_many_are_to_blame_others_are_served_and_the_tries_stay_few():
    guilty = frozenset(range(100, 160))
    compute = Computation(range(1000), *guilty)
    found, bad = isolated(compute, lambda: range(1000))
    assert guilty <= set(bad)
    assert len(found) > 700
    assert compute.tries < 110


def test_of_many_that_were_left_out_those_that_are_not_to_blame_come_back():
    guilty = frozenset(range(100, 160))
    out, served = frozenset(), 0
    for _ in range(4):
        compute = Computation(range(1000), *guilty)
        found, bad = isolated(compute, lambda: range(1000), known=lambda _, out=out: sorted(out))
        assert guilty <= set(bad)
        assert len(found) >= served
        assert compute.tries < 110
        out, served = frozenset(bad), len(found)
    assert served > 930


@given(st.integers(30, 200), st.sets(st.integers(0, 199), min_size=MOST_GROUPS + 1), st.data())
def test_nobody_to_blame_is_served_whoever_was_left_out_before(count, guilty, data):
    guilty = {group for group in guilty if group < count}
    known = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    compute = Computation(range(count), *guilty)
    try:
        found, bad = isolated(compute, lambda: range(count), known=lambda _: known)
    except BadError:
        assert len(guilty) > MOST_GROUPS
    else:
        assert set(bad) >= guilty
        assert found == [group for group in range(count) if group not in bad]
    assert compute.tries < 120


def test_who_was_to_blame_and_is_mended_is_served():
    assert isolated(Computation(range(9)), lambda: range(9), known=lambda _: {3}) == (list(range(9)), {})


def test_what_is_nobodys_fault_is_raised():
    def compute(_):
        raise BadError("always")

    with pytest.raises(BadError, match="always"):
        isolated(compute, lambda: range(100))


def test_what_is_everybodys_fault_is_raised():
    with pytest.raises(BadError):
        isolated(Computation(range(100), *range(100)), lambda: range(100))


def test_a_caller_with_a_better_way_is_told_at_once():
    compute = Computation(range(100), 3, 4)
    with pytest.raises(BadError):
        isolated(compute, lambda: range(100), most=1)
    assert compute.tries < 12


def test_what_must_not_be_caught_is_raised_at_once():
    compute = Computation(range(100), 3)
    with pytest.raises(BadError):
        isolated(compute, lambda: range(100), fatal=(BadError,))
    assert compute.tries == 1
