"""PreferAvoidPods lists: bounded, renewed, collected."""

from rescheduler.model.records import AvoidEntry
from rescheduler.planning.avoid import LIMIT, TTL_S, collected, entry_for, holds, with_entry
from rescheduler.testing import builders as b


def entry(uid, ends, reason="NodeTaints"):
    return AvoidEntry("ReplicaSet", uid, uid, "default", reason, float(ends))


def test_an_entry_is_renewed_not_repeated():
    (only,) = with_entry((entry("a", 100),), entry("a", 200), 50.0)
    assert only.expires_at_s == 200


def test_the_list_is_bounded_and_loses_what_ends_first():
    entries = tuple(entry(f"u{i}", 1000 + i) for i in range(LIMIT))
    kept = with_entry(entries, entry("new", 5000), 0.0)
    assert len(kept) == LIMIT
    assert {"u0"} == {e.controller_uid for e in entries} - {e.controller_uid for e in kept}


def test_ended_entries_and_dead_controllers_are_collected():
    entries = (entry("alive", 100), entry("dead", 100), entry("alive", 10, "TopologySpread"))
    assert collected(entries, {"alive"}, 50.0) == (entry("alive", 100),)


def test_holds_until_its_end_only():
    entries = (entry("a", 100),)
    assert holds(entries, "a", 99.0) == entries
    assert holds(entries, "a", 100.0) == ()
    assert holds(entries, "b", 0.0) == ()


def test_the_time_depends_on_the_reason():
    owner = b.replicaset("web").pod("web-0").build().controller
    assert entry_for(owner, "default", "TopologySpread", 10.0).expires_at_s == 10.0 + TTL_S["TopologySpread"]
