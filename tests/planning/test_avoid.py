"""PreferAvoidPods lists: bounded, renewed, collected."""

from harness import builders as b
from rescheduler.model.node_status import AvoidEntry
from rescheduler.planning.avoid import LIMIT, TTL_S, collected, entry_for, holds, with_entry


def entry(uid, ends, reason="NodeTaints", namespace="default"):
    return AvoidEntry("ReplicaSet", uid, uid, namespace, reason, float(ends))


def test_an_entry_is_renewed_not_repeated():
    (only,) = with_entry((entry("a", 100),), entry("a", 200), 50.0)
    assert only.expires_at_s == 200


def test_the_list_is_bounded_and_loses_what_ends_first():
    entries = tuple(entry(f"u{i}", 1000 + i) for i in range(LIMIT))
    kept = with_entry(entries, entry("new", 5000), 0.0)
    assert len(kept) == LIMIT
    assert {"u0"} == {e.controller_uid for e in entries} - {e.controller_uid for e in kept}


def test_who_leaves_many_hints_drops_none_of_others():
    entries = (entry("mine", 100),)
    for i in range(3 * LIMIT):
        entries = with_entry(entries, entry(f"theirs{i}", 1000 + i, namespace="other"), 0.0)
    assert len(entries) == LIMIT
    assert entries[0] == entry("mine", 100)


def test_an_entry_of_another_namespace_is_not_that_of_a_controller_with_the_same_uid():
    mine, forged = entry("a", 100), entry("a", 200, namespace="other")
    kept = with_entry((mine,), forged, 0.0)
    assert set(kept) == {mine, forged}
    assert holds(kept, "default", "a", 0.0) == (mine,)
    assert holds((forged,), "default", "a", 0.0) == ()


def test_ended_entries_and_dead_controllers_are_collected():
    entries = (entry("alive", 100), entry("dead", 100), entry("alive", 10, "TopologySpread"))
    assert collected(entries, {"alive"}, 50.0) == (entry("alive", 100),)


def test_holds_until_its_end_only():
    entries = (entry("a", 100),)
    assert holds(entries, "default", "a", 99.0) == entries
    assert holds(entries, "default", "a", 100.0) == ()
    assert holds(entries, "default", "b", 0.0) == ()


def test_the_time_depends_on_the_reason():
    owner = b.replicaset("web").pod("web-0").build().controller
    assert entry_for(owner, "default", "TopologySpread", 10.0).expires_at_s == 10.0 + TTL_S["TopologySpread"]
    in_profile = entry_for(owner, "default", "night/TooManyRestarts", 10.0)
    assert in_profile.expires_at_s == 10.0 + TTL_S["TooManyRestarts"]
