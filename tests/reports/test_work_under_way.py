"""The document of the live page while work is done: moves under way, what they wait for, and what trends keep of them."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.migrations.migration_lifecycle import MigrationReason
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.times import format_seconds
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan as make_plan
from rescheduler.reports.cluster_status import GOES_ON, ClusterPicture, SeenObjects, Trends, cluster_status
from rescheduler.reports.health import with_health
from rescheduler.reports.status_document import Blocker, ControllerStatus, Presence, ShownMove
from rescheduler.scheduling.state import SchedulingState
from tests import records


def move(name, phase=MigrationPhase.PENDING, reason="", finished_at_s=0.0):
    times = {"started_at_s": 100.0, "finished_at_s": finished_at_s}
    return records.move(name, phase, namespace="shop", reason=reason, **times)


def document(*moves, blockers=(), headline="Nothing to move."):
    snapshot = b.snapshot(b.node("n1"))
    seen = SeenObjects(
        at_s=snapshot.taken_at_s, nodes=snapshot.nodes, reservations={}, windows={}, head_rooms={},
        migrations={one.key: one for one in moves}, usage={}, gated=(),
    )  # fmt: skip
    return cluster_status(ClusterPicture(seen=seen, headline=headline, blockers=blockers))


def test_the_moves_of_a_decision_are_not_told_as_if_they_came_on_top():
    found = document(move("a", reason="Reserving"), headline="2 moves: repair 2 of 3 violations")
    assert found.headline == "1 move under way; the last decision: 2 moves: repair 2 of 3 violations"


BUDGET = MigrationReason.DISRUPTION_BUDGET
HEADLINES = {
    "idle": ((), (), "Nothing to move."),
    "at work": ((move("a", reason="Reserving"),), (), "1 move under way; nothing more to move."),
    "some wait": ((move("a", reason="Reserving"), move("b", reason=BUDGET)), (),
        "2 moves under way, 1 waits (DisruptionBudget 1); nothing more to move."),
    "all wait": ((move("a", reason=BUDGET), move("b", reason=BUDGET)), (Blocker(reason="WorkloadCooldown", blocked_by="limits", pods=3),),
        "2 moves under way, all of them wait (DisruptionBudget 2); nothing more to move now: 3 pods stay (WorkloadCooldown 3)"),
    "blocked": ((), (Blocker(reason="DisruptionBudget", blocked_by="api", pods=1),), "Nothing to move now: 1 pod stays (DisruptionBudget 1)"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADLINES)
def test_the_headline_tells_first_what_goes_on_and_what_it_waits_for(name):
    moves, blockers, words = HEADLINES[name]
    found = document(*moves, blockers=blockers)
    assert found.headline == words
    assert found.moves_under_way == len(moves)
    assert sum(one.pods for one in found.waiting) == sum(one.waits for one in found.moves)


@pytest.mark.parametrize("presence", Presence)
@pytest.mark.parametrize("words", ["2 moves: repair 2 of 3 violations", "Nothing to move."])
def test_the_headline_says_first_that_no_controller_runs(presence, words):
    found = msgspec.structs.replace(document(headline=words), controller=ControllerStatus(presence=presence))
    told = with_health(found).headline
    stopped = presence in (Presence.STOPPED, Presence.ABSENT)
    assert told.startswith("No controller runs, so no pod is moved; ") is stopped
    assert told.endswith(words[1:])
    assert with_health(document(headline="")).headline == ""


@pytest.mark.parametrize("reason", [MigrationReason.GATE_NOT_IN_FORCE, MigrationReason.TARGET_LOST])
def test_the_last_move_says_whether_an_installed_gate_is_followed(reason):
    ended = ShownMove(
        namespace="shop", pod="web-1", source="a", target="b", phase="Failed", reason=str(reason),
        message="", by="", ended_at="2026-12-01T13:27:06Z",
    )  # fmt: skip
    found = with_health(msgspec.structs.replace(document(), gate="InForce", finished=(ended,)))
    (gate,) = (line for line in found.health if line.part == "gate")
    assert gate.ok is (reason is MigrationReason.TARGET_LOST)
    assert ("shop/web-1 at 2026-12-01T13:27:06Z (rescheduler check" in gate.says) is not gate.ok


def test_moves_wait_for_every_reason_but_those_of_their_own_steps():
    own = {"", "Recording"} | {
        str(reason) for reason in list(MigrationReason)[: list(MigrationReason).index(MigrationReason.LANDED)]
    }
    assert own == GOES_ON


def test_trends_keep_moves_that_began_and_ended_between_two_samples():
    snapshot = b.snapshot(b.node("n1"))
    plan = make_plan(snapshot, (), PlanningInputs(), SchedulingState(snapshot))
    trends = Trends()
    trends.add(plan, (), 1000.0)
    trends.saw([move("a", MigrationPhase.EVICTING), move("b", MigrationPhase.PENDING)], 1010.0)
    ended = [move(name, MigrationPhase.SUCCEEDED, "Landed", 1020.0) for name in "ab"]
    trends.saw(ended, 1020.0)
    (sample,) = trends.samples
    assert (sample.moves_under_way, sample.moves_ended) == (2, 2)
    trends.add(plan, ended, 1070.0)
    assert [(one.moves_under_way, one.moves_ended) for one in trends.samples] == [(2, 2), (0, 0)]


def test_hints_are_told_in_words_until_they_expire():
    snapshot = b.snapshot(b.node("n1"))
    now_s = snapshot.taken_at_s
    hint = AvoidEntry(
        controller_kind="Deployment", controller_name="web", controller_uid="u", namespace="shop",
        reason="NodeTaints", expires_at_s=now_s + 60,
    )  # fmt: skip
    over = msgspec.structs.replace(hint, expires_at_s=now_s - 1)
    asked = msgspec.structs.replace(hint, reason="Moved")
    node = msgspec.structs.replace(snapshot.nodes["n1"], avoid=(hint, over, asked))
    seen = dataclasses.replace(SeenObjects.of(snapshot), nodes={"n1": node})
    (shown,) = cluster_status(ClusterPicture(seen=seen)).nodes
    until = format_seconds(now_s + 60)
    who = "pods of deployment/web of namespace shop"
    assert shown.hints == tuple(
        f"{who}, moved away {why}, do not come back until {until}" for why in ("for NodeTaints", "on request")
    )
