"""The list-and-watch machine without a network."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.builders import pod
from harness.object_builders import CREATED
from rescheduler.kube.reflector import (
    BASE_S,
    CAP_S,
    CONFIRM_S,
    LIVED_S,
    RECHECKS_S,
    REMOVED_AFTER_S,
    RETURNING_S,
    RETURNS_S,
    UNANSWERED_CAP_S,
    ChangeType,
    End,
    EndKind,
    ListRequest,
    Reflector,
    WatchRequest,
)
from rescheduler.model.kinds import Kind
from rescheduler.model.names import LABEL_PLACEHOLDER
from rescheduler.model.records import ObjectKey


@dataclass(frozen=True)
class Thing:
    name: str
    value: int = 0
    uid: str = "u"
    namespace: str = ""


def summary(events):
    return [(event.type, event.record.name if event.record else None) for event in events]


def listed(*things, version="10", **options):
    machine = Reflector(Kind.NODE, watch_list=False, **options)
    machine.on_page(things, version, "", 0.0)
    return machine


def end(machine, kind, now_s=1.0, chance=1.0, retry_after_s=None):
    return machine.on_end(End(kind, "why", retry_after_s), now_s, chance)


def test_pages_are_asked_for_one_after_the_other_and_then_it_watches():
    machine = Reflector(Kind.NODE, watch_list=False)
    assert machine.next_step() == ListRequest("")
    assert summary(machine.on_page([Thing("a")], "9", "t1", 1.0)) == [(ChangeType.ADDED, "a")]
    assert not machine.synced
    assert machine.next_step() == ListRequest("t1")
    assert summary(machine.on_page([Thing("b")], "10", "", 2.0)) == [
        (ChangeType.ADDED, "b"),
        (ChangeType.SYNCED, None),
    ]
    assert machine.synced
    assert machine.next_step() == WatchRequest("10", initial=False)
    assert machine.last_contact_s == 2.0


def test_the_initial_events_of_a_watch_replace_the_list():
    machine = Reflector(Kind.NODE)
    assert machine.next_step() == WatchRequest("", initial=True)
    machine.on_opened(0.0)
    machine.on_change(Thing("a"), "5", deleted=False, now_s=1.0)
    assert not machine.synced
    assert summary(machine.on_bookmark("7", initial_end=True, now_s=2.0)) == [(ChangeType.SYNCED, None)]
    assert (machine.synced, machine.filling) == (True, False)
    end(machine, EndKind.CLEAN)
    assert machine.next_step() == WatchRequest("7", initial=False)


def test_a_server_without_watch_list_is_listed_at_once():
    machine = Reflector(Kind.NODE)
    assert end(machine, EndKind.UNSUPPORTED) == (0.0, [])
    assert machine.next_step() == ListRequest("")


def test_a_server_that_never_marks_the_end_of_the_initial_events_is_listed():
    machine = Reflector(Kind.NODE)
    machine.on_opened(0.0)
    end(machine, EndKind.BROKEN)
    assert machine.next_step() == ListRequest("")


def test_a_server_that_is_away_does_not_lose_watch_list():
    machine = Reflector(Kind.NODE)
    end(machine, EndKind.BROKEN)
    assert machine.next_step() == WatchRequest("", initial=True)


def test_changes_carry_what_was_before():
    machine = listed(Thing("a", 1))
    (modified,) = machine.on_change(Thing("a", 2), "11", deleted=False, now_s=1.0)
    assert (modified.type, modified.old, modified.record) == (
        ChangeType.MODIFIED,
        Thing("a", 1),
        Thing("a", 2),
    )
    (deleted,) = machine.on_change(Thing("a", 3), "12", deleted=True, now_s=1.0)
    assert (deleted.type, deleted.old, deleted.record) == (ChangeType.DELETED, Thing("a", 2), Thing("a", 3))
    assert machine.next_step() == WatchRequest("12", initial=False)


def test_repeated_events_are_told_once():
    machine = listed(Thing("a", 1))
    assert machine.on_change(Thing("a", 1), "10", deleted=False, now_s=1.0) == []
    assert machine.on_change(Thing("zzz"), "10", deleted=True, now_s=1.0) == []


def test_a_pod_that_has_failed_counts_as_deleted_unless_its_kubelet_did_not_take_it():
    reflector = Reflector(Kind.POD, watch_list=False)
    ran, refused = (pod(name).on("n").set("status.startTime", CREATED) for name in ("ran", "refused"))
    over = pod("over").phase("Failed").build()
    first = reflector.on_page([ran.build(), refused.build(), over], "10", "", 0.0)
    assert summary(first)[:-1] == [(ChangeType.ADDED, "ran"), (ChangeType.ADDED, "refused")]
    ended = [ran.phase("Failed"), refused.phase("Failed").set("status.reason", "OutOfcpu")]
    changes = [reflector.on_change(one.build(), "11", deleted=False, now_s=1.0) for one in (*ended, ended[0])]
    assert list(map(summary, changes)) == [
        [(ChangeType.DELETED, "ran")],
        [(ChangeType.MODIFIED, "refused")],
        [],
    ]


def test_a_placeholder_that_has_failed_is_seen_until_it_is_deleted():
    reflector = Reflector(Kind.POD, watch_list=False)
    holder = pod("holder").on("n").label(**{LABEL_PLACEHOLDER: "room"})
    reflector.on_page([holder.build()], "10", "", 0.0)
    (changed,) = reflector.on_change(holder.phase("Failed").build(), "11", deleted=False, now_s=1.0)
    assert (changed.type, changed.record.terminal) == (ChangeType.MODIFIED, True)


def test_a_successor_of_the_same_name_is_another_object():
    machine = listed(Thing("a", uid="1"))
    events = machine.on_change(Thing("a", uid="2"), "11", deleted=False, now_s=1.0)
    assert [(e.type, e.record.uid) for e in events] == [(ChangeType.DELETED, "1"), (ChangeType.ADDED, "2")]


@pytest.mark.parametrize("reason", [EndKind.EXPIRED, EndKind.UNDECODABLE])
def test_what_was_missed_is_found_by_the_difference(reason):
    machine = listed(Thing("kept"), Thing("changed", 1), Thing("gone"))
    end(machine, reason)
    assert machine.next_step() == ListRequest("")
    assert machine.synced
    events = machine.on_page([Thing("kept"), Thing("changed", 2), Thing("new")], "20", "", 5.0)
    assert summary(events) == [
        (ChangeType.MODIFIED, "changed"),
        (ChangeType.ADDED, "new"),
        (ChangeType.DELETED, "gone"),
    ]
    assert machine.relists[reason] == 1
    assert machine.next_step() == WatchRequest("20", initial=False)


def test_a_page_token_that_expires_restarts_the_list_without_losing_anything():
    machine = Reflector(Kind.NODE, watch_list=False)
    machine.on_page([Thing("a"), Thing("b")], "9", "t1", 0.0)
    end(machine, EndKind.EXPIRED)
    assert machine.next_step() == ListRequest("")
    events = machine.on_page([Thing("a")], "12", "", 1.0)
    assert summary(events) == [(ChangeType.DELETED, "b"), (ChangeType.SYNCED, None)]


def test_a_failed_page_is_asked_for_again():
    machine = Reflector(Kind.NODE, watch_list=False)
    machine.on_page([Thing("a")], "9", "t1", 0.0)
    end(machine, EndKind.BROKEN)
    assert machine.next_step() == ListRequest("t1")


def test_a_broken_watch_goes_on_from_the_last_version():
    machine = listed(Thing("a"))
    machine.on_bookmark("33", initial_end=False, now_s=3.0)
    end(machine, EndKind.BROKEN)
    assert machine.next_step() == WatchRequest("33", initial=False)
    assert machine.last_contact_s == 3.0


@pytest.mark.parametrize(
    "reason", [EndKind.CLEAN, EndKind.BROKEN, EndKind.REFUSED, EndKind.DENIED, EndKind.EXPIRED]
)
def test_every_end_waits_and_the_wait_grows_to_the_cap(reason):
    machine = listed()
    waits = []
    for now_s in range(12):
        machine.on_opened(float(now_s))
        waits.append(end(machine, reason, now_s=float(now_s))[0])
        if machine.filling:
            machine.on_page([], "9", "", float(now_s))
    assert waits[0] > 0
    assert waits == sorted(waits)
    assert waits[-1] == CAP_S


def test_the_wait_is_short_again_only_after_a_stream_has_lived():
    machine = listed()
    for _ in range(10):
        end(machine, EndKind.REFUSED)
    machine.on_opened(100.0)
    assert end(machine, EndKind.CLEAN, now_s=100.0 + LIVED_S - 1)[0] == CAP_S
    machine.on_opened(200.0)
    assert end(machine, EndKind.CLEAN, now_s=200.0 + LIVED_S)[0] < 1.0


def test_a_server_that_is_away_is_asked_often_and_nothing_of_it_is_held_against_the_next():
    machine = listed()
    waits = [end(machine, EndKind.BROKEN)[0] for _ in range(12)]
    assert waits == sorted(waits)
    assert waits[-1] == UNANSWERED_CAP_S
    # It is back, and has forgotten the versions that it gave out before.
    assert end(machine, EndKind.EXPIRED)[0] == BASE_S


@pytest.mark.parametrize("seen", [EndKind.BROKEN, EndKind.SILENT])
def test_refusals_of_a_server_that_starts_are_no_failures_in_a_row(seen):
    """403, 429 and 410 come one after the other, of each kind; for a server that refuses for long the wait grows as ever."""
    refusals = (EndKind.DENIED, EndKind.REFUSED, EndKind.UNPROVEN, EndKind.DENIED, EndKind.EXPIRED)
    machine = listed(Thing("a"))
    machine.on_opened(0.0)
    end(machine, seen, now_s=30.0)
    waits = [end(machine, kind, now_s=31.0 + at_s)[0] for at_s, kind in enumerate(refusals)]
    assert (max(waits) <= RETURNING_S, waits[-1] == BASE_S) == ((seen is EndKind.BROKEN,) * 2)
    later_s = 30.0 + RETURNS_S
    assert [end(machine, EndKind.DENIED, now_s=later_s + at_s)[0] for at_s in range(8)][-1] == CAP_S


def test_a_list_that_breaks_again_and_again_is_asked_for_ever_less():
    machine = Reflector(Kind.NODE, watch_list=False)
    assert [end(machine, EndKind.BROKEN)[0] for _ in range(12)][-1] == CAP_S


def test_retry_after_is_obeyed():
    machine = listed()
    wait_s, _ = end(machine, EndKind.REFUSED, retry_after_s=17.0)
    assert wait_s >= 17.0


def test_an_optional_kind_that_is_absent_is_empty_and_looked_for_now_and_then():
    machine = Reflector(Kind.RESERVATION, optional=True)
    wait_s, events = end(machine, EndKind.ABSENT)
    assert summary(events) == [(ChangeType.SYNCED, None)]
    assert (machine.synced, machine.absent, machine.problem) == (True, True, "")
    assert wait_s >= 30
    machine.on_opened(60.0)
    machine.on_change(Thing("r"), "5", deleted=False, now_s=61.0)
    machine.on_bookmark("6", initial_end=True, now_s=61.0)
    assert (machine.absent, machine.objects) == (False, 1)


@pytest.mark.parametrize("kind", [EndKind.ABSENT, EndKind.UNPROVEN])
def test_a_kind_that_was_seen_and_is_not_served_is_unknown_and_asked_for_within_seconds(kind):
    machine = listed(Thing("a"), optional=True, kept=True)
    for at_s in range(2, 4_000, 2):
        wait_s, events = end(machine, kind, now_s=float(at_s))
        assert (events, machine.objects, machine.absent) == ([], 1, False)
        assert wait_s <= UNANSWERED_CAP_S
        assert "was served and is not now" in machine.unknown
    assert machine.next_step() == ListRequest("")
    machine.on_page([Thing("a"), Thing("b")], "20", "", 4_001.0)
    assert (machine.unknown, machine.problem, machine.objects) == ("", "", 2)


def test_a_kind_of_others_is_removed_once_it_was_proven_for_long_that_it_is_not_served():
    machine = listed(Thing("r"), optional=True)
    end(machine, EndKind.ABSENT, now_s=10.0)
    assert end(machine, EndKind.ABSENT, now_s=10.0 + REMOVED_AFTER_S - 1)[1] == []
    end(machine, EndKind.UNPROVEN, now_s=10.0 + REMOVED_AFTER_S)
    assert end(machine, EndKind.ABSENT, now_s=900.0)[1] == []
    assert machine.unknown
    removed = end(machine, EndKind.ABSENT, now_s=900.0 + REMOVED_AFTER_S)[1]
    assert summary(removed) == [(ChangeType.LOST, "r")]
    assert (machine.objects, machine.absent, machine.unknown) == (0, True, "")


def test_what_an_unproven_404_leaves_is_not_taken_for_absent_at_the_start():
    machine = Reflector(Kind.RESERVATION, optional=True)
    wait_s, events = end(machine, EndKind.UNPROVEN)
    assert (events, machine.synced, machine.absent) == ([], False, False)
    assert wait_s <= UNANSWERED_CAP_S


@pytest.mark.parametrize("again", [[], ["a"], ["a", "b", "c", "d"]])
def test_a_list_that_lacks_most_of_what_was_there_is_read_again(again):
    machine = listed(*map(Thing, "abcd"))
    end(machine, EndKind.EXPIRED)
    assert machine.on_page([Thing("a")], "20", "", 2.0) == []
    assert machine.doubt is not None
    assert "lacks 3 of 4" in machine.unknown
    wait_s, events = machine.on_end(machine.doubt, 2.0, 1.0)
    assert (events, machine.doubt) == ([], None)
    assert CONFIRM_S <= wait_s <= 2 * CONFIRM_S
    assert machine.next_step() == ListRequest("")
    gone = machine.on_page(list(map(Thing, again)), "21", "", 4.0)
    assert summary(gone) == [(ChangeType.LOST, name) for name in "abcd" if name not in again]
    assert (machine.unknown, machine.doubt, machine.next_step()) == (
        "",
        None,
        WatchRequest("21", initial=False, longest_s=RECHECKS_S[0] if len(again) < 2 else None),
    )


def test_what_two_lists_lack_is_listed_again_later_and_found_if_it_is_there():
    machine = listed(*map(Thing, "abcd"))
    end(machine, EndKind.EXPIRED)
    for _ in range(2):
        gone = machine.on_page([], "20", "", 2.0)
        if machine.doubt is not None:
            machine.on_end(machine.doubt, 2.0, 1.0)
    assert summary(gone) == [(ChangeType.LOST, name) for name in "abcd"], (
        "nobody has deleted them for certain"
    )
    for number, pause_s in enumerate(RECHECKS_S):
        assert machine.next_step() == WatchRequest("20", initial=False, longest_s=pause_s)
        machine.on_opened(3.0)
        end(machine, EndKind.CLEAN, now_s=3.0 + pause_s)
        assert machine.next_step() == ListRequest("")
        assert machine.unknown == "", "what was confirmed decides until a list says otherwise"
        found = machine.on_page(list(map(Thing, "abcd")), "20", "", 40.0)
        assert summary(found) == ([] if number else [(ChangeType.ADDED, name) for name in "abcd"])
    assert machine.next_step() == WatchRequest("20", initial=False)


def test_most_of_what_is_deleted_one_by_one_is_believed():
    machine = listed(Thing("a"), Thing("b"))
    for name in "ab":
        machine.on_change(Thing(name), "11", deleted=True, now_s=2.0)
    assert (machine.objects, machine.unknown) == (0, "")


def test_a_kind_that_must_be_there_is_never_taken_as_empty():
    machine = Reflector(Kind.POD)
    _, events = end(machine, EndKind.ABSENT)
    assert events == []
    assert not machine.synced


def test_missing_rights_are_a_problem_until_they_are_given():
    machine = listed()
    end(machine, EndKind.DENIED)
    assert machine.problem == "why"
    machine.on_page([], "9", "", 1.0)
    assert machine.problem == ""


def test_a_damaged_object_is_set_aside():
    machine = listed(Thing("a"), Thing("b"))
    events = machine.on_damaged(ObjectKey("", "a"), None, "11", deleted=False, now_s=1.0)
    assert summary(events) == [(ChangeType.LOST, "a")]
    events = machine.on_damaged(ObjectKey("", "b"), Thing("b", 7), "12", deleted=False, now_s=1.0)
    assert summary(events) == [(ChangeType.MODIFIED, "b")]
    assert machine.next_step() == WatchRequest("12", initial=False)
    events = machine.on_damaged(ObjectKey("", "b"), Thing("b", 7), "13", deleted=True, now_s=1.0)
    assert summary(events) == [(ChangeType.DELETED, "b")]


class Mirror:
    """A consumer: what it knows by the events alone."""

    def __init__(self):
        self.things = {}

    def take(self, events):
        for event in events:
            if event.type in (ChangeType.DELETED, ChangeType.LOST):
                assert self.things.pop(event.record.name) == event.old
            elif event.type is not ChangeType.SYNCED:
                assert (event.record.name in self.things) == (event.type is ChangeType.MODIFIED)
                assert self.things.get(event.record.name) == event.old
                self.things[event.record.name] = event.record


NAMES = st.sampled_from("abcde")


@settings(max_examples=200, deadline=None)
@given(
    st.booleans(),
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), NAMES, st.integers(0, 3)),
            st.tuples(st.just("delete"), NAMES, st.just(0)),
            st.tuples(st.just("repeat"), NAMES, st.just(0)),
            st.tuples(st.just("end"), st.sampled_from(list(EndKind)), st.integers(0, 3)),
        ),
        max_size=40,
    ),
)
def test_whatever_happens_the_consumer_ends_up_with_what_the_server_has(  # noqa: C901 - a model of a server
    watch_list, happenings
):
    machine, mirror, server, log = Reflector(Kind.NODE, watch_list=watch_list), Mirror(), {}, []

    def catch_up():
        step = machine.next_step()
        while isinstance(step, ListRequest):
            names = sorted(server)
            start = int(step.token or 0)
            token = str(start + 2) if start + 2 < len(names) else ""
            mirror.take(
                machine.on_page([server[n] for n in names[start : start + 2]], str(len(log)), token, 0.0)
            )
            step = machine.next_step()
        machine.on_opened(0.0)
        if step.initial:
            for thing in server.values():
                mirror.take(machine.on_change(thing, "1", deleted=False, now_s=0.0))
            mirror.take(machine.on_bookmark(str(len(log)), initial_end=True, now_s=0.0))
        else:
            for gone, thing in log[int(step.version) if step.version else 0 :]:
                mirror.take(machine.on_change(thing, "", deleted=gone, now_s=0.0))
        mirror.take(machine.on_bookmark(str(len(log)), initial_end=False, now_s=0.0))

    catch_up()
    for what, name, value in happenings:
        if what == "put":
            server[name] = Thing(name, value)
            log.append((False, server[name]))
        elif what == "delete" and name in server:
            log.append((True, server.pop(name)))
        elif what == "repeat" and name in server and not machine.filling:
            mirror.take(machine.on_change(server[name], "", deleted=False, now_s=0.0))
        elif what == "end":
            mirror.take(machine.on_end(End(name), 0.0, 0.5)[1])
    catch_up()
    assert mirror.things == server
    assert machine.objects == len(server)
    assert machine.synced


def test_a_watch_that_the_server_accepts_proves_that_we_are_up_to_date():
    machine = listed(Thing("a"))
    end(machine, EndKind.BROKEN)
    assert machine.problem == "why"
    machine.on_opened(70.0)
    assert (machine.last_contact_s, machine.problem) == (70.0, "")


def test_a_list_that_has_begun_again_proves_nothing_before_its_end():
    machine = Reflector(Kind.NODE)
    machine.on_opened(1.0)
    machine.on_bookmark("5", initial_end=True, now_s=2.0)
    end(machine, EndKind.EXPIRED)
    machine.on_opened(50.0)
    assert machine.last_contact_s == 2.0
    assert machine.problem == "why"


def test_silence_where_nothing_happens_is_no_problem():
    machine = listed(Thing("a"))
    machine.on_opened(1.0)
    wait_s, _ = end(machine, EndKind.SILENT, now_s=76.0)
    assert wait_s < 1.0
    assert (machine.problem, machine.next_step()) == ("", WatchRequest("10", initial=False))
