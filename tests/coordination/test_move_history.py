"""What ConfigMap move-history contains: bounded, and nothing is dropped that a limit counts."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.coordination.move_history import MoveHistory, needed
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import ANNOTATION_COOLDOWN
from rescheduler.model.past_moves import PastMove, encode_past_move, node_digest
from rescheduler.model.records import Workload
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_seconds
from rescheduler.planning.beginning import MOST_ENTRIES
from rescheduler.planning.limits import Limits, RequestedLimits
from rescheduler.planning.past_moves import HOUR_S, PastMoves
from tests import records

NOW = 1_790_000_000.0
CONFIG_MAP_LIMIT = 1 << 20
LONGEST = "u" * 63


def move(ago_s, **fields):
    return PastMove(begun_s=NOW - ago_s, **fields)


times = st.floats(0, 8 * HOUR_S).map(lambda ago_s: NOW - ago_s)
moves = st.builds(
    PastMove, begun_s=times, requested=st.booleans(), pod_uid=st.sampled_from("ab"),
    workload_uid=st.sampled_from("xy"), evicting_s=st.just(0.0) | times, ended_s=times, failed=st.booleans(),
    refused_by=st.sampled_from(["", "n"]),
)  # fmt: skip


def answers(found):
    past = PastMoves(found, (), NOW)
    hours = [len(past.begun(requested=asked)) for asked in (True, False)]
    rests = [past.cooldown_until(uid, 7200.0) for uid in "xy"]
    closed = [past.refused_until("", uid) for uid in "xy"]
    return (
        hours,
        rests,
        closed,
        [past.backoff_until(uid, requested=asked) for uid in "ab" for asked in (True, False)],
    )


@given(st.dictionaries(st.text("abc", min_size=1), moves, max_size=12))
def test_nothing_is_dropped_that_still_counts(found):
    assert answers(needed(found, 7200.0, Snapshot(taken_at_s=NOW))) == answers(found)


def resting(number, namespace="shop", cooldown="24h"):
    uid = f"{namespace}-{number}"
    marks = LabelSet({ANNOTATION_COOLDOWN: cooldown})
    return Workload(kind="Deployment", namespace=namespace, name=uid, uid=uid, annotations=marks)


def done(workload, ago_s):
    return PastMove(begun_s=NOW - ago_s, evicting_s=NOW - ago_s, ended_s=NOW - ago_s, workload_uid=workload)


def test_the_last_move_of_a_workload_that_asks_for_rest_is_kept_for_as_long():
    moves = {
        "old": done("shop-0", 30 * HOUR_S),
        "last": done("shop-0", 23 * HOUR_S),
        "other": done("x", 23 * HOUR_S),
    }
    asks = Snapshot(taken_at_s=NOW, workloads={"shop-0": resting(0)})
    assert needed(moves, 7200.0, asks).keys() == {"last"}
    assert not needed(moves, 7200.0, Snapshot(taken_at_s=NOW))
    assert not needed(moves, 7200.0, Snapshot(taken_at_s=NOW + HOUR_S, workloads=asks.workloads))
    week = Snapshot(taken_at_s=NOW, workloads={"shop-0": resting(0, cooldown="9000h")})
    assert not needed({"old": done("shop-0", 8 * 24 * HOUR_S)}, 7200.0, week), "a week at most"


def test_no_namespace_keeps_more_than_its_part_of_the_history():
    owners = [resting(i, "crowd") for i in range(200)] + [resting(i, f"n{i}") for i in range(20)]
    moves = {w.uid: done(w.uid, 10 * HOUR_S + (w.namespace != "crowd")) for w in owners}
    kept = needed(moves, 7200.0, Snapshot(taken_at_s=NOW, workloads={w.uid: w for w in owners}))
    assert sum(key.startswith("crowd") for key in kept) == 30
    assert sum(not key.startswith("crowd") for key in kept) == 20


@settings(max_examples=20)
@given(st.integers(1, 900), st.integers(0, 900))
def test_beyond_the_bound_what_began_within_the_hour_stays(extra, older):
    this_hour = {f"new-{i}": move(10.0) for i in range(MOST_ENTRIES - older)}
    old = {
        f"old-{i}": move(2 * HOUR_S, failed=True, ended_s=NOW - i, pod_uid="a") for i in range(older + extra)
    }
    kept = needed({**old, **this_hour}, 7200.0, Snapshot(taken_at_s=NOW))
    assert len(kept) == MOST_ENTRIES
    assert this_hour.keys() <= kept.keys()
    assert set(kept) - set(this_hour) == {f"old-{i}" for i in range(older)}, "the latest ones"


def test_the_config_map_cannot_reach_its_limit_of_1_mib():
    longest = PastMove(
        begun_s=NOW, requested=True, namespace=LONGEST, pod_uid=LONGEST, workload_uid=LONGEST, evicting_s=NOW, ended_s=NOW, failed=True
    )  # fmt: skip
    refused = msgspec.structs.replace(longest, evicting_s=0.0, refused_by=node_digest("n1"))
    assert len(encode_past_move(refused)) < len(encode_past_move(longest))
    assert MOST_ENTRIES * (len(LONGEST) + len(encode_past_move(longest))) < CONFIG_MAP_LIMIT


def test_a_uid_that_is_longer_than_any_is_left_out_of_the_text():
    assert "pod=" not in encode_past_move(move(1.0, pod_uid="x" * 64))
    assert "pod=" not in encode_past_move(move(1.0, pod_uid="a b=c"))


def migration(phase=MigrationPhase.PENDING, **status):
    return records.move("m", phase, uid="m-1", created_at_s=NOW - 30, pod_name="p", pod_uid="p-1", **status)


def snapshot(*found, at_s=NOW):
    return Snapshot(taken_at_s=at_s, migrations={m.key: m for m in found})


def test_a_move_is_recorded_only_once_it_is_stored():
    history, pending = MoveHistory(), migration()
    history.follow(snapshot(pending), Limits())
    assert not history.recorded(pending).begun
    history.begin(pending, "p-1")
    assert not history.recorded(pending).begun
    history.confirm(history.moves)
    assert history.recorded(pending).begun
    evicting = migration(MigrationPhase.EVICTING, started_at_s=NOW, eviction_requested_at_s=NOW + 1)
    history.follow(snapshot(evicting, at_s=NOW + 1), Limits())
    assert history.recorded(evicting).begun
    assert history.may_wait, "the eviction needs no write of its own"


def test_a_move_that_ends_without_an_eviction_rests_nobody():
    history, pending = MoveHistory(), migration()
    history.follow(snapshot(pending), Limits())
    history.begin(pending, "p-1")
    begun = migration(MigrationPhase.RESERVING, started_at_s=NOW)
    history.follow(snapshot(begun), Limits())
    assert history.moves["m-1"].disturbed_s
    failed = migration(MigrationPhase.FAILED, started_at_s=NOW, finished_at_s=NOW + 3)
    history.wrote(begun, failed.status)
    assert not history.moves["m-1"].disturbed_s


def test_a_limit_holds_a_move_up_until_its_pod_is_evicted_anyway_at_the_latest():
    history, pending, pod = MoveHistory(), migration(), b.pod("p").on("n1").build()
    history.follow(snapshot(pending), Limits())
    history.begin(pending, "p-1")
    other = msgspec.structs.replace(pending, name="n", uid="m-2")
    history.follow(snapshot(pending, other), Limits(requested=RequestedLimits(moves_per_hour=1)))
    forever = history.held_back(other, pod)
    assert forever.until_s > NOW + 60
    assert history.held_back(other, pod, NOW + 60).until_s == NOW + 60
    assert history.held_back(other, pod, NOW) is None


def test_a_move_whose_entry_an_earlier_version_wrote_is_recorded_again_before_it_evicts():
    history, seen = MoveHistory(), migration(MigrationPhase.EVICTING, started_at_s=NOW)
    history.read({"m-1": f"begun={format_seconds(NOW)} by=policy namespace=default pod=p-1"}, NOW)
    history.confirm(history.moves)
    assert not history.recorded(seen).begun
    history.follow(snapshot(seen), Limits())
    assert not history.may_wait
    history.confirm(history.moves)
    assert history.recorded(seen).begun


def test_a_stale_cache_does_not_take_an_end_back():
    history = MoveHistory()
    under_way = migration(MigrationPhase.HANDING_OVER, started_at_s=NOW - 20, evicted_at_s=NOW - 10)
    history.follow(snapshot(under_way), Limits())
    ended = migration(MigrationPhase.FAILED, started_at_s=NOW - 20, evicted_at_s=NOW - 10, finished_at_s=NOW)
    history.wrote(under_way, ended.status)
    history.follow(snapshot(migration(MigrationPhase.HANDING_OVER, started_at_s=NOW - 20)), Limits())
    history.follow(snapshot(), Limits())
    assert history.moves["m-1"].failed_s == NOW


def test_one_that_has_begun_is_not_held_back_by_itself():
    history, pending = MoveHistory(), migration()
    history.follow(snapshot(pending), Limits())
    history.begin(pending, "p-1")
    begun = dict(history.moves)
    history.follow(snapshot(pending, at_s=NOW + 60), Limits())
    history.begin(pending, "p-1")
    assert history.moves == begun, "it began at its first try"


def test_what_no_limit_counts_any_more_is_removed():
    history = MoveHistory()
    history.read({"old": "begun=2020-01-01T00:00:00Z by=policy", "new": encode_past_move(move(1.0))}, NOW)
    history.follow(snapshot(), Limits())
    assert set(history.content()) == {"new"}


def test_a_longer_cool_down_of_the_configuration_is_remembered_as_long():
    rests = {"m": move(3 * HOUR_S, evicting_s=NOW - 3 * HOUR_S, workload_uid="x")}
    for cooldown_s, left in ((7200.0, 0), (4 * HOUR_S, 1)):
        history = MoveHistory(moves=dict(rests))
        history.follow(snapshot(), Limits(workload_cooldown_s=cooldown_s))
        assert len(history.content()) == left


def test_how_moves_ended_may_wait_and_what_a_step_waits_for_may_not():
    history = MoveHistory()
    assert not history.may_wait
    steps = [
        ({"u": move(60)}, False),
        ({"u": move(60, evicting_s=NOW)}, False),
        ({"u": move(60, evicting_s=NOW + 1)}, True),
        ({"u": move(60, evicting_s=NOW + 1, ended_s=NOW + 5)}, True),
        ({"u": move(60, evicting_s=NOW + 1, ended_s=NOW + 5), "v": move(0, ended_s=NOW)}, True),
        ({"v": move(0, ended_s=NOW)}, False),
        ({"v": move(0, ended_s=NOW, evicting_s=NOW)}, True),
        ({"v": move(0), "w": move(0, evicting_s=NOW)}, False),
    ]
    for now, may_wait in steps:
        history.moves = now
        assert history.may_wait == may_wait, now
        history.confirm(now)
        assert not history.may_wait
