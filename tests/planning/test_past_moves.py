"""What limits count is the same with a PodMigration as after its deletion, and its text survives whatever people write."""

import dataclasses

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.model.migration import TARGET_REFUSED, MigrationPhase
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY, LABEL_WORKLOAD_UID
from rescheduler.model.past_moves import (
    CLOCK_TOLERANCE_S,
    PastMove,
    decode_past_move,
    decode_past_moves,
    encode_past_move,
    node_digest,
)
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.beginning import MOST_ENTRIES, MoveToBegin, held_back
from rescheduler.planning.history import History
from rescheduler.planning.limits import Limits, RequestedLimits
from rescheduler.planning.past_moves import HOUR_S, PastMoves, merged, refusals, uid_of
from rescheduler.planning.plan import SkipReason
from tests import records

NOW = 1_790_000_000.0
UIDS = ("pod-a", "pod-b")
WORKLOADS = ("workload-a", "workload-b")
whole = st.integers(0, int(8 * HOUR_S)).map(lambda ago_s: NOW - ago_s)
entries = st.builds(
    PastMove,
    begun_s=whole,
    requested=st.booleans(),
    pod_uid=st.sampled_from(UIDS),
    workload_uid=st.sampled_from(WORKLOADS),
    evicting_s=st.just(0.0) | whole,
    ended_s=whole,
    failed=st.booleans(),
) | st.builds(
    PastMove,
    begun_s=whole,
    namespace=st.just("default"),
    workload_uid=st.sampled_from(WORKLOADS),
    ended_s=whole,
    failed=st.just(True),
    refused_by=st.sampled_from(["n1", "n2"]).map(node_digest),
)


def finished(number, *, planned, phase, began_s, evicted_s, ended_s, pod, workload, reason=""):
    labels = {LABEL_WORKLOAD_UID: workload} | ({LABEL_CREATED_BY: CREATED_BY} if planned else {})
    named = {
        "uid": f"uid-{number}",
        "pod_name": pod,
        "pod_uid": pod,
        "policy": "NodeTaints" if planned else "",
    }
    times = {
        "created_at_s": began_s,
        "started_at_s": began_s,
        "evicted_at_s": evicted_s,
        "finished_at_s": ended_s,
    }
    return records.move(f"m-{number}", phase, labels=labels, reason=reason, node_name="n2", **named, **times)


@st.composite
def migrations(draw):
    """Finished PodMigrations of pods that are gone or stand, with times that have fractions."""
    found = []
    for number in range(draw(st.integers(0, 6))):
        begun_s = NOW - draw(st.floats(1, 8 * HOUR_S))
        ended_s = min(NOW, begun_s + draw(st.floats(0, 600)))
        phase = draw(st.sampled_from([MigrationPhase.SUCCEEDED, MigrationPhase.FAILED]))
        landed = phase is MigrationPhase.SUCCEEDED
        refused = not landed and draw(st.booleans())
        found.append(
            finished(
                number,
                planned=draw(st.booleans()),
                phase=phase,
                began_s=begun_s,
                evicted_s=ended_s if landed or (not refused and draw(st.booleans())) else 0.0,
                ended_s=ended_s,
                pod=draw(st.sampled_from(UIDS)),
                workload=draw(st.sampled_from(WORKLOADS)),
                reason=TARGET_REFUSED if refused else "",
            )
        )
    return found


def pod(uid, workload):
    record = b.replicaset(workload).pod(uid).on("n1").build()
    controller = msgspec.structs.replace(record.controller, uid=workload)
    return msgspec.structs.replace(record, uid=uid, controller=controller)


def answers(snapshot):
    """Everything that planning and the beginning of a requested move ask."""
    history = History(snapshot)
    past = PastMoves(merged(snapshot.past_moves, snapshot), (), NOW)
    found = [history.begun_within_hour(), len(past.begun(requested=True))]
    for uid in UIDS:
        for workload in WORKLOADS:
            one = pod(uid, workload)
            found += [history.cooldown_until(one, 7200.0) or 0.0, history.backoff_until(one) or 0.0]
        found.append(past.backoff_until(uid, requested=True) or 0.0)
    closed = PastMoves(refusals(snapshot), (), NOW)
    for workload in WORKLOADS:
        assert closed.refused_until("default", workload) == past.refused_until("default", workload)
        found.append(past.refused_until("default", workload))
    return found


@given(migrations(), st.dictionaries(st.sampled_from(["old-1", "old-2"]), entries), st.data())
def test_to_forget_podmigrations_never_allows_more(found, kept, data):
    labelled = [
        m for m in found if not m.requested
    ]  # the pods of the others are gone, and nothing else names them
    snapshot = Snapshot(taken_at_s=NOW, migrations={m.key: m for m in labelled}, past_moves=kept)
    recorded = merged(kept, snapshot)
    left = data.draw(st.sets(st.sampled_from([m.key for m in labelled]))) if labelled else set()
    after = dataclasses.replace(
        snapshot,
        past_moves={
            uid: decode_past_move(encode_past_move(move), NOW) or move for uid, move in recorded.items()
        },
        migrations={m.key: m for m in labelled if m.key in left},
    )
    assert answers(after) == answers(snapshot)


@given(migrations())
def test_an_entry_and_its_podmigration_count_once(found):
    snapshot = Snapshot(taken_at_s=NOW, migrations={m.key: m for m in found})
    both = dataclasses.replace(snapshot, past_moves=merged({}, snapshot))
    assert answers(both) == answers(snapshot)


def test_a_move_whose_podmigration_was_deleted_after_the_eviction_disturbed_its_workload():
    one = pod("pod-a", "workload-a")
    move = PastMove(begun_s=NOW - 60, pod_uid="pod-a", workload_uid="workload-a", evicting_s=NOW - 50)
    gone = Snapshot(taken_at_s=NOW, past_moves={"uid-0": move})
    assert History(gone).cooldown_until(one, 600.0) == NOW + 550
    begun = Snapshot(taken_at_s=NOW, past_moves={"uid-0": msgspec.structs.replace(move, evicting_s=0.0)})
    assert History(begun).cooldown_until(one, 600.0) is None, "it evicted nothing"
    assert History(begun).begun_within_hour() == 1


@pytest.mark.parametrize(("phase", "ended_s", "evicting_s"), [
    (MigrationPhase.EVICTING, 0.0, NOW - 60),
    (MigrationPhase.FAILED, NOW - 1, 0.0),
], ids=["goes on", "ended"])  # fmt: skip
def test_a_move_that_withdrew_its_eviction_disturbs_nobody_once_it_has_ended(phase, ended_s, evicting_s):
    """Until then it counts as one that evicts, since its beginning."""
    planned = finished(
        0, planned=True, phase=phase, began_s=NOW - 60, evicted_s=0.0, ended_s=ended_s,
        pod="pod-a", workload="workload-a",
    )  # fmt: skip
    known = PastMove(begun_s=NOW - 60, evicting_s=NOW - 50, workload_uid="workload-a")
    snapshot = Snapshot(taken_at_s=NOW, migrations={planned.key: planned})
    assert merged({uid_of(planned): known}, snapshot)[uid_of(planned)].evicting_s == evicting_s


def test_what_people_ask_for_counts_only_once_it_has_begun():
    asked = finished(
        0, planned=False, phase=MigrationPhase.FAILED, began_s=0.0, evicted_s=0.0, ended_s=NOW,
        pod="pod-a", workload="workload-a",
    )  # fmt: skip
    assert merged({}, Snapshot(taken_at_s=NOW, migrations={asked.key: asked})) == {}


# The text -------------------------------------------------------------------------------------------


@given(entries)
def test_the_text_of_an_entry_gives_the_entry(move):
    assert decode_past_move(encode_past_move(move), NOW) == move


@given(st.text(max_size=500))
@example("begun=9999-12-31T23:59:59-12:00 by=request result=failed ended=0001-01-01T00:00:00Z")
@example("by=policy by=policy")
@example("begun= by=policy")
def test_any_text_is_decoded_or_refused(text):
    move = decode_past_move(text, NOW)
    if move is not None:
        assert max(move.begun_s, move.evicting_s, move.ended_s) <= NOW + CLOCK_TOLERANCE_S
        assert decode_past_move(encode_past_move(move), NOW) == move


@given(st.dictionaries(st.text(max_size=80), st.text(max_size=80), max_size=5), entries)
def test_bad_entries_do_not_hide_good_ones(nonsense, move):
    assume("good" not in nonsense)
    found, bad = decode_past_moves({**nonsense, "good": encode_past_move(move)}, NOW)
    assert found["good"] == move
    assert set(bad) | set(found) == {*nonsense, "good"}


def test_clocks_may_differ_by_minutes_but_not_by_years():
    near, far = "begun=2026-09-21T14:15:20Z by=policy", "begun=2036-09-21T14:15:20Z by=policy"
    now_s = decode_past_move(near, NOW).begun_s - CLOCK_TOLERANCE_S / 2
    assert decode_past_move(near, now_s).begun_s > now_s
    assert decode_past_move(far, now_s).begun_s == now_s


# Whether a move may begin ---------------------------------------------------------------------------


def begun(times, *, requested=True, **fields):
    moves = {str(i): PastMove(begun_s=t, requested=requested, **fields) for i, t in enumerate(times)}
    return PastMoves(moves, (), NOW)


REQUEST = MoveToBegin(requested=True, namespace="shop", pod_uid="pod-a", workload_uid="workload-a")
PLANNED = MoveToBegin(requested=False, namespace="shop", pod_uid="pod-a", workload_uid="workload-a")
TWO = Limits(moves_per_hour=2, requested=RequestedLimits(moves_per_hour=2))


def test_the_next_one_begins_when_the_oldest_of_as_many_as_are_allowed_is_an_hour_old():
    past = begun([NOW - 3000, NOW - 2000, NOW - 1000])
    found = held_back(REQUEST, past, TWO, NOW)
    assert (found.reason, found.until_s) == (SkipReason.LIMIT_HOUR, NOW - 2000 + HOUR_S)
    assert held_back(PLANNED, past, TWO, NOW) is None, "planned ones are counted apart"
    assert held_back(PLANNED, begun([NOW - 1, NOW - 2], requested=False), TWO, NOW) is not None


def test_a_limit_of_nothing_waits_for_another_configuration():
    found = held_back(REQUEST, begun([]), Limits(requested=RequestedLimits(moves_per_hour=0)), NOW)
    assert found.until_s is None


def test_so_many_moves_begin_within_an_hour_as_the_config_map_holds():
    wide = Limits(moves_per_hour=10**6, requested=RequestedLimits(moves_per_hour=10**6))
    assert held_back(REQUEST, begun([NOW - 1] * (MOST_ENTRIES - 1)), wide, NOW) is None
    for move in (REQUEST, PLANNED):
        found = held_back(move, begun([NOW - 600] * MOST_ENTRIES), wide, NOW)
        assert "as many as ConfigMap move-history holds" in found.message
        assert found.until_s == NOW + HOUR_S - 600


def test_only_failures_of_requests_hold_requests_back():
    fails = {"failed": True, "ended_s": NOW - 10, "pod_uid": "pod-a"}
    assert held_back(REQUEST, begun([NOW - 20], **fails), Limits(), NOW).reason is SkipReason.BACKOFF
    assert held_back(REQUEST, begun([NOW - 20], requested=False, **fails), Limits(), NOW) is None


def test_five_full_nodes_are_emptied_within_an_hour_by_default():
    times = [NOW - 1.0] * (5 * 110)
    disturbed = {"evicting_s": NOW - 1, "ended_s": NOW - 1, "workload_uid": "workload-a"}
    assert held_back(REQUEST, begun(times, **disturbed), Limits(), NOW) is None


def lost(ago_s, *, failed=True, namespace="shop", evicted=True):
    ended_s = NOW - ago_s
    return PastMove(namespace=namespace, begun_s=ended_s - 9, evicting_s=ended_s - 5 if evicted else 0.0, ended_s=ended_s, failed=failed)  # fmt: skip


@pytest.mark.parametrize(("moves", "rests_s"), [
    ([lost(30), lost(20)], None),
    ([lost(30), lost(20), lost(10)], 50.0),
    ([lost(40), lost(30), lost(20), lost(10)], 110.0),
    ([lost(90), lost(80), lost(70)], None),
    ([lost(40), lost(30), lost(20), lost(10, failed=False)], None),
    ([lost(40, failed=False), lost(30), lost(20), lost(10)], 50.0),
    ([lost(30), lost(20), lost(10, evicted=False)], None),
    ([lost(30), lost(20), lost(10, namespace="other")], None),
], ids=["two", "three", "four", "long ago", "then one landed", "one landed before", "one was not evicted", "of two namespaces"])  # fmt: skip
def test_a_namespace_rests_whose_last_moves_all_evicted_a_pod_and_failed(moves, rests_s):
    """Nobody creates its pods, or somebody always takes their rooms: one after the other would be lost."""
    past = PastMoves({f"m{number}": move for number, move in enumerate(moves)}, (), NOW)
    found = past.lost_until("shop")
    assert (None if found is None else found - NOW) == rests_s
    assert past.lost_until("other") is None
