"""A machine does not act on a cache that is older than its last write."""

import pytest

from rescheduler.coordination.expectations import BEHIND_LIMIT_S, UNSEEN_LIMIT_S, Expectations, Touched
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey

MACHINE = ObjectKey("", "room")
WRITTEN = Touched(kind=Kind.RESERVATION, key=MACHINE, version="7")
DELETED = Touched(kind=Kind.POD, key=ObjectKey("rescheduler", "room-x"), deleted=True)


def awaited(touched, cached, *, after_s):
    expectations = Expectations()
    expectations.wrote(MACHINE, (touched,), 100.0)
    return expectations.unseen_until(MACHINE, lambda kind, key: cached, 100.0 + after_s)


@pytest.mark.parametrize("cached", [("7", False), ("12", False)])
def test_a_cache_that_shows_the_write_is_not_waited_for(cached):
    assert awaited(WRITTEN, cached, after_s=0.0) is None


@pytest.mark.parametrize("cached", [None, ("3", True)])
def test_a_cache_that_shows_the_deletion_is_not_waited_for(cached):
    assert awaited(DELETED, cached, after_s=0.0) is None


def test_an_older_version_is_waited_for_as_long_as_a_watch_may_be_behind():
    assert awaited(WRITTEN, ("6", False), after_s=8.0) == 100.0 + BEHIND_LIMIT_S
    assert awaited(WRITTEN, ("6", False), after_s=BEHIND_LIMIT_S) is None


@pytest.mark.parametrize(("touched", "cached"), [(WRITTEN, None), (DELETED, ("9", False))])
def test_what_may_never_show_is_waited_for_only_a_short_time(touched, cached):
    assert awaited(touched, cached, after_s=1.0) == 100.0 + UNSEEN_LIMIT_S
    assert awaited(touched, cached, after_s=UNSEEN_LIMIT_S) is None


def test_what_was_shown_once_is_not_waited_for_again():
    expectations, both = Expectations(), (WRITTEN, DELETED)
    expectations.wrote(MACHINE, both, 100.0)
    first = {Kind.RESERVATION: ("7", False), Kind.POD: ("9", False)}
    assert expectations.unseen_until(MACHINE, lambda kind, key: first[kind], 101.0)
    then = {Kind.RESERVATION: ("6", False), Kind.POD: None}
    assert expectations.unseen_until(MACHINE, lambda kind, key: then[kind], 102.0) is None
