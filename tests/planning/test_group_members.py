"""Groups of pods that are of use only with so many members: none is left with fewer, and room is made for enough or for none."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.model.pod_group import PodGroupRecord
from rescheduler.model.records import ObjectKey
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.group_members import GroupMembers
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.policies.pending_pods import PendingPods, PendingPodsArgs
from rescheduler.scheduling.state import SchedulingState

COSCHEDULING = {"scheduling.x-k8s.io/pod-group": "train"}
VOLCANO = {"scheduling.k8s.io/group-name": "train"}


def grouped(*items, least, theirs="coscheduling_groups"):
    group = PodGroupRecord("default", "train", min_member=least)
    return dataclasses.replace(b.snapshot(*items), **{theirs: {ObjectKey("default", "train"): group}})


def full(number):
    """So many nodes on which a pod of 2 CPUs fits once the one that stands there has left, and as many small ones."""
    items = []
    for one in range(number):
        owner = b.replicaset(f"web-{one}").cpu("1").replicas(1)
        items += [b.node(f"n{one}").cpu("2"), b.node(f"small-{one}").cpu("1")]
        items += [owner, owner.pod(f"web-{one}-a").on(f"n{one}")]
    return items


def waiting(number, **marks):
    return [
        b.pod(f"train-{i}").cpu("2").unschedulable().label(**COSCHEDULING).annotate(**marks)
        for i in range(number)
    ]


def made(snapshot):
    policy = PendingPods(PendingPodsArgs())
    found = plan(snapshot, [policy], PlanningInputs(unlimited=True), SchedulingState(snapshot))
    return {room.pod.name: room.node for room in found.rooms}, {room.message for room in found.rooms}


def test_room_is_made_for_as_many_as_are_needed():
    rooms, said = made(grouped(*full(2), *waiting(3), least=2))
    assert sorted(filter(None, rooms.values())) == ["n0", "n1"]
    assert (
        "enough pods of its group get room now (minMember); the others are planned for once those run" in said
    )


def test_room_for_fewer_is_of_no_use():
    rooms, said = made(grouped(*full(2), *waiting(4), least=3))
    assert set(rooms.values()) == {""}
    assert said == {"2 of 4 pending pods of group train would find room, and it needs 3 more (minMember)"}


def test_pods_that_are_not_there_yet_are_waited_for():
    rooms, said = made(grouped(*full(2), *waiting(2), least=4))
    assert set(rooms.values()) == {""}
    assert said == {"2 of the 4 pods that group train still needs are pending for want of room (minMember)"}


def test_those_that_run_count():
    runs = b.pod("train-9").cpu("1").label(**COSCHEDULING)
    items = [b.node("other").cpu("1"), runs.on("other")]
    rooms, _ = made(grouped(*full(1), *items, *waiting(2), least=2))
    assert sorted(rooms.values()) == ["", "n0"], "one more is enough"
    rooms, _ = made(grouped(*full(1), *items, *waiting(2), least=1))
    assert sorted(rooms.values()) == ["", "n0"], "one by one"


@pytest.mark.parametrize(
    "key", ["gang.scheduling.koordinator.sh/min-available", "scheduling.volcano.sh/group-min-member"]
)
@pytest.mark.parametrize(("text", "placed"), [("2", 2), ("3", 0), ("x", 0), ("-1", 0), ("9" * 40, 0)])
def test_pods_may_say_the_number_themselves(key, text, placed):
    """What cannot be read says nothing: then all of a group are of use only together."""
    rooms, _ = made(b.snapshot(*full(2), *waiting(3, **{key: text})))
    assert len(list(filter(None, rooms.values()))) == placed


@pytest.mark.parametrize(
    ("marks", "theirs"), [(COSCHEDULING, "coscheduling_groups"), (VOLCANO, "pod_groups")]
)
def test_no_move_leaves_fewer(marks, theirs):
    pods = [b.pod(f"train-{i}").label(**COSCHEDULING).annotate(**marks).on("n") for i in range(3)]
    pods += [b.pod("other", "elsewhere").label(**COSCHEDULING).on("n")]
    snapshot = grouped(b.node("n"), *pods, least=2, theirs=theirs)
    ledger = BudgetLedger(snapshot)
    first, second, _, stranger = sorted(
        snapshot.pods.values(), key=lambda pod: (pod.name == "other", pod.name)
    )
    assert ledger.refusal(first) is None
    ledger.take(first)
    refused = ledger.refusal(second)
    assert refused is not None
    assert refused.message == "group train needs 2 Ready pods (minMember), and 1 would be left"
    assert ledger.refusal(stranger) is None, "a group is one of a namespace"
    ledger.give_back(first)
    assert ledger.refusal(second) is None


def test_of_a_group_that_says_nothing_any_pod_may_move():
    snapshot = grouped(b.node("n"), b.pod("train-0").label(**COSCHEDULING).on("n"), least=0)
    (pod,) = snapshot.pods.values()
    members = GroupMembers(snapshot)
    assert (members.least(pod), members.missing(pod), members.refusal(pod)) == (0, 0, "")
