"""Room for pending pods: who steps aside, in which order, what holds them, and why nothing helps."""

from __future__ import annotations

import msgspec
import pytest

from bench.pending import decide as decide_alone
from bench.pending import generate, refused
from harness import builders as b
from rescheduler.planning import pending_rooms
from rescheduler.planning.limits import Limits, PlanningInputs, Protections
from rescheduler.planning.planner import plan
from rescheduler.policies.node_taints import NodeTaints, NodeTaintsArgs
from rescheduler.policies.pending_pods import PendingPods, PendingPodsArgs
from rescheduler.scheduling.state import SchedulingState


def web(name, node, *, cpu="1", spec=lambda s: s):
    """A pod of a ReplicaSet of its own, and that ReplicaSet."""
    owner = spec(b.replicaset(name).cpu(cpu).replicas(1))
    return [owner, owner.pod(f"{name}-1").on(node)]


def nodes(*cpus):
    return [b.node(f"n{number}").cpu(cpu) for number, cpu in enumerate(cpus, 1)]


def big(name="big", cpu="2", spec=lambda p: p):
    return spec(b.pod(name).cpu(cpu).unschedulable())


def made(*items, inputs=None, **args):
    snapshot = b.snapshot(*items)
    inputs = inputs or PlanningInputs(unlimited=True)
    found = plan(snapshot, [PendingPods(PendingPodsArgs(**args))], inputs, SchedulingState(snapshot))
    moved = [move.pod.uid for move in found.moves]
    assert set(moved) <= {pod.uid for pod in snapshot.pods.values()}, "only pods that exist are moved"
    assert len(moved) == len(set(moved))
    return found


def rooms(found):
    return {room.pod.name: (room.node, [pod.name for pod in room.moves]) for room in found.rooms}


def steps(found):
    return [(m.pod.name, m.target, [p.name for p in m.after]) for m in found.moves]


def test_a_pod_steps_aside_once_and_leaves_large_nodes_to_the_next_one():
    """It fills either of two nodes; on the larger one it would stand in the way of the second pod, and no pod moves twice."""
    owner = b.replicaset("big").cpu("2").replicas(2)
    waiting = [owner, *[owner.pod(f"big-{i}").unschedulable() for i in range(2)]]
    found = made(*nodes("2", "2", "1", "1"), *web("a", "n1"), *web("b", "n2"), *waiting)
    assert {(name, *after) for name, _, after in steps(found)} == {("a-1",), ("b-1",)}
    assert sorted(target for _, target, _ in steps(found)) == ["n3", "n4"]
    assert sorted(node for node, _ in rooms(found).values()) == ["n1", "n2"]


def test_one_pod_steps_aside():
    found = made(*nodes("2", "1"), *web("a", "n1"), big())
    assert rooms(found) == {"big": ("n1", ["a-1"])}
    assert [(m.reason, m.message) for m in found.moves] == [("MakesRoom", "makes room for default/big")]
    before, after = found.before, found.after
    assert (before.pending_pods, after.pending_pods) == (1, 0)
    assert (before.policies[0].badness.pending, after.policies[0].badness.pending) == (1, 0)
    assert sum(effect.change.pending for move in found.moves for effect in move.effects) == -1
    assert {n.name: n.cpu_requested_milli for n in after.nodes} == {"n1": 2000, "n2": 1000}


def test_one_pod_is_cheaper_than_two():
    halves = [*web("b", "n2", cpu="500m"), *web("c", "n2", cpu="500m")]
    assert rooms(made(*nodes("2", "2", "1"), *web("a", "n1"), *halves, big())) == {"big": ("n1", ["a-1"])}


def test_several_step_aside_together():
    found = made(*nodes("3", "1", "1", "1"), *web("a", "n1"), *web("b", "n1"), *web("c", "n1"), big(cpu="3"))
    assert [(node, sorted(pods)) for node, pods in rooms(found).values()] == [("n1", ["a-1", "b-1", "c-1"])]
    assert {target for _, target, _ in steps(found)} == {"n2", "n3", "n4"}


CHAIN = [*nodes("4", "3", "2"), *web("a", "n1", cpu="3"), *web("b", "n2", cpu="2")]
"""big fits n1 without a, a fits n2 without b, b fits n3."""


def test_nobody_steps_aside_to_a_node_that_is_too_small_for_it():
    """Nodes without GPUs seemed to have room for all pods with one."""
    gpu = "nvidia.com/gpu"
    items = [b.node(f"gpu{i}").cpu("64").allocatable({gpu: "8"}) for i in range(6)]
    items += [b.node(f"cpu{i}").cpu("16") for i in range(4)]
    for i in range(6):
        owner = b.replicaset(f"one{i}").cpu("4").requests({gpu: "1"}).replicas(2)
        items += [owner, owner.pod(f"one{i}-0").on(f"gpu{i}"), owner.pod(f"one{i}-1").on(f"gpu{(i + 1) % 6}")]
    found = made(*items, big("all", "1", lambda p: p.requests({gpu: "8"})))
    assert len(found.moves) == 2


def test_a_chain():
    found = made(*CHAIN, big(cpu="4"))
    assert steps(found) == [("b-1", "n3", []), ("a-1", "n2", ["b-1"])]
    assert [p.name for p in found.rooms[0].after] == ["a-1"]
    assert rooms(made(*CHAIN, big(cpu="4"), depth=1))["big"][0] == ""


def test_a_chain_of_three():
    chain = [
        *nodes("4", "3", "2", "1"),
        *web("a", "n1", cpu="3"),
        *web("b", "n2", cpu="2"),
        *web("c", "n3", cpu="1"),
    ]
    found = made(*chain, big(cpu="4"))
    assert [name for name, _, _ in steps(found)] == ["c-1", "b-1", "a-1"]
    assert rooms(made(*chain, big(cpu="4"), depth=2))["big"][0] == ""
    assert rooms(made(*chain, big(cpu="4"), most_moves=2))["big"][0] == ""


def test_a_pod_of_higher_priority_stays_unless_it_may_move():
    items = [*nodes("2", "1"), *web("a", "n1", spec=lambda s: s.priority(10)), big()]
    found = made(*items)
    assert rooms(found)["big"][0] == ""
    assert (
        found.rooms[0].message
        == "it would fit on n1 if default/a-1 (to n2) moved; default/a-1: has a higher priority"
    )
    assert rooms(made(*items, move_higher_priorities=True))["big"][0] == "n1"


@pytest.mark.parametrize(("held", "reason", "words"), [
    ({"budget": True}, "DisruptionBudget", "default/a-1: PodDisruptionBudget default/a allows 0 disruptions now"),
    ({"priority": 5}, "Protected", "default/a-1: has priority 5, at or above 5"),
])  # fmt: skip
def test_what_holds_a_pod_is_said(held, reason, words):
    items = [*nodes("2", "1"), *web("a", "n1", spec=lambda s: s.priority(held.get("priority", 0)))]
    if "budget" in held:
        items.append(b.pdb("a"))
    inputs = PlanningInputs(unlimited=True, protections=Protections(priority_threshold=5))
    found = made(*items, big(spec=lambda p: p.priority(9)), inputs=inputs)
    assert not found.moves
    assert words in found.rooms[0].message
    assert [skipped.reason for skipped in found.skipped] == [reason]


def test_another_way_is_taken_where_one_is_held():
    items = [*nodes("2", "2", "1", "1"), *web("a", "n1"), b.pdb("a"), *web("b", "n2"), big()]
    assert rooms(made(*items)) == {"big": ("n2", ["b-1"])}


def test_two_pods_of_one_budget_do_not_leave_together():
    shared = b.pdb("calm").selects(team="x").allows(1)
    both = [
        *web("a", "n1", spec=lambda s: s.template_label(team="x")),
        *web("b", "n1", spec=lambda s: s.template_label(team="x")),
    ]
    assert rooms(made(*nodes("2", "1", "1"), *both, shared, big()))["big"][0] == ""


def test_limits_hold_and_a_way_is_planned_as_a_whole_or_not_at_all():
    items = [*nodes("2", "1", "1"), *web("a", "n1"), *web("b", "n1"), big()]
    for limits, planned in ((Limits(per_node=2), 2), (Limits(per_node=1), 0), (Limits(moves_at_once=1), 0)):
        assert len(made(*items, inputs=PlanningInputs(limits=limits)).moves) == planned


@pytest.mark.parametrize(("items", "words"), [
    ([*nodes("1", "1")], "no node that would take it is large enough, even without the pods there"),
    ([b.node("n1").cpu("4").taint("x")], "no node would take it, whichever pods stood elsewhere: TaintToleration refuses 1"),
    ([*nodes("2"), *web("a", "n1")], "no pods that may be moved leave room enough for it on any node"),
], ids=["too small", "refused", "nowhere to go"])  # fmt: skip
def test_why_nothing_helps(items, words):
    found = made(*items, big())
    assert [(room.node, room.message) for room in found.rooms] == [("", words)]
    assert [skipped.message for skipped in found.skipped] == [words]


def test_host_ports():
    items = [*nodes("4", "1"), *web("a", "n1", spec=lambda s: s.host_port(8080))]
    assert rooms(made(*items, big(spec=lambda p: p.host_port(8080)))) == {"big": ("n1", ["a-1"])}


def test_required_anti_affinity_of_either_side():
    items = [*nodes("4", "1"), *web("a", "n1")]
    assert rooms(made(*items, big(spec=lambda p: p.apart("kubernetes.io/hostname", app="a")))) == {
        "big": ("n1", ["a-1"])
    }
    items = [*nodes("4", "1"), *web("a", "n1", spec=lambda s: s.apart("kubernetes.io/hostname", app="big"))]
    assert rooms(made(*items, big(spec=lambda p: p.label(app="big")))) == {"big": ("n1", ["a-1"])}


def test_who_must_leave_a_zone_leaves_the_zone():
    zoned = [
        b.node("n1").cpu("4").zone("z1"),
        b.node("n2").cpu("1").zone("z1"),
        b.node("n3").cpu("1").zone("z2"),
    ]
    asked = big(spec=lambda p: p.apart("topology.kubernetes.io/zone", app="a"))
    assert steps(made(*zoned, *web("a", "n2", cpu="500m"), asked)) == [("a-1", "n3", [])]


def test_pods_that_find_no_room_do_not_take_it_from_others():
    """Both want n1: only the order in which the larger one comes first serves both."""
    items = [
        *nodes("4", "3", "1", "1"), *web("a", "n1"), *web("b", "n2", cpu="1"), *web("f", "n1", cpu="500m"),
    ]  # fmt: skip
    found = made(*items, big("first", "3"), big("second", "3500m"))
    assert all(node for node, _ in rooms(found).values())


def gang(size):
    job = b.job("train").cpu("2")
    return [job, *[job.pod(f"train-{i}").unschedulable() for i in range(size)]]


def test_a_gang_gets_room_together_or_not_at_all():
    items = [*nodes("2", "2", "1", "1"), *web("a", "n1"), *web("b", "n2")]
    assert sorted(node for node, _ in rooms(made(*items, *gang(2))).values()) == ["n1", "n2"]
    found = made(*items, *gang(3))
    assert not found.moves
    said = "2 of 3 pending pods of Job train would find room, and they are of use only together"
    assert {room.message for room in found.rooms} == {said}


@pytest.mark.parametrize(("labels", "annotations"), [
    ({"scheduling.x-k8s.io/pod-group": "train"}, {}),
    ({"pod-group.scheduling.sigs.k8s.io": "train"}, {}),
    ({"volcano.sh/job-name": "train"}, {}),
    ({}, {"scheduling.k8s.io/group-name": "train"}),
    ({}, {"scheduling.volcano.sh/group-name": "train"}),
    ({}, {"gang.scheduling.koordinator.sh/name": "train"}),
])  # fmt: skip
def test_pods_that_name_one_group_are_a_gang_whoever_controls_them(labels, annotations):
    items = [*nodes("2", "2", "1", "1"), *web("a", "n1"), *web("b", "n2")]
    owner = b.replicaset("train").cpu("2").replicas(3)

    def waiting(size):
        pods = (owner.pod(f"train-{i}").label(**labels).annotate(**annotations) for i in range(size))
        return [owner, *[pod.unschedulable() for pod in pods]]

    assert sorted(node for node, _ in rooms(made(*items, *waiting(2))).values()) == ["n1", "n2"]
    found = made(*items, *waiting(3))
    assert not found.moves
    said = "2 of 3 pending pods of group train would find room, and they are of use only together"
    assert {room.message for room in found.rooms} == {said}


def test_a_group_of_another_namespace_is_another_group():
    items = [*nodes("2", "2", "1", "1"), *web("a", "n1"), *web("b", "n2")]
    mark = {"scheduling.x-k8s.io/pod-group": "train"}
    mine = [b.pod(f"mine-{i}").cpu("2").unschedulable().label(**mark) for i in range(2)]
    theirs = b.pod("theirs", "other").cpu("2").unschedulable().label(**mark)
    placed = {name for name, (node, _) in rooms(made(*items, *mine, theirs)).items() if node}
    assert placed in ({"theirs"}, {"mine-0", "mine-1"}), "three of one gang would find no room"


def test_pods_of_a_replicaset_get_room_one_by_one():
    owner = b.replicaset("big").cpu("2").replicas(3)
    waiting = [owner, *[owner.pod(f"big-{i}").unschedulable() for i in range(3)]]
    found = made(*nodes("2", "2", "1", "1"), *web("a", "n1"), *web("b", "n2"), *waiting)
    assert sum(bool(node) for node, _ in rooms(found).values()) == 2


@pytest.mark.parametrize("seed", range(1, 5))
def test_generated_clusters(seed):
    """All find room, in any order of the moves of a stage, and the same input gives the same bytes."""
    cluster = generate(seed, nodes=16)
    found = decide_alone(cluster.snapshot)
    assert msgspec.json.encode(found) == msgspec.json.encode(decide_alone(cluster.snapshot))
    assert all(room.node for room in found.rooms)
    assert refused(cluster.snapshot, found) == 0
    assert len(found.moves) <= cluster.moves + 1


def test_hard_topology_spread():
    """One of its kind stands in zone z1, none in z2: with room in z1 only, that one has to leave for z2."""

    def spread(spec):
        return spec.label(team="x").spread("topology.kubernetes.io/zone", 1, hard=True, team="x")

    zoned = [
        b.node("n1").cpu("4").zone("z1"),
        b.node("n2").cpu("1").zone("z2"),
        b.node("n3").cpu("1").zone("z2"),
    ]
    stands = [*web("a", "n1", spec=lambda s: s.template_label(team="x")), *web("c", "n2")]
    found = made(*zoned, *stands, big(spec=spread))
    assert rooms(found) == {"big": ("n1", ["a-1"])}


def test_pods_that_wait_are_in_the_way_of_nobody_where_a_node_lacks_the_topology_key():
    """No rule lets them in there, and none of them stands anywhere that it could leave."""
    app = b.replicaset("app").cpu("1").replicas(3).template_label(team="app")
    app = app.spread("rack", 1, hard=True, team="app")
    waiting = [app.pod(f"app-{number}").unschedulable() for number in range(3)]
    full = [b.node("n1").cpu("2").label(rack="r1"), b.pod("alone").cpu("2").on("n1")]
    cluster = b.snapshot(*full, b.node("n2").cpu("2"), app, *waiting)
    policies = [NodeTaints(NodeTaintsArgs()), PendingPods(PendingPodsArgs())]
    found = plan(cluster, policies, PlanningInputs(unlimited=True), SchedulingState(cluster))
    assert found.moves == ()
    assert {room.message for room in found.rooms} == {
        "no pods that may be moved leave room enough for it on any node"
    }


def expected_sibling():
    """app-2 waits and is expected on n1, where big would fit without it or z-1; it is of the kind of app-1, which stands."""
    app = b.replicaset("app").cpu("300m").replicas(2).template_label(team="app")
    app = app.spread("topology.kubernetes.io/region", 2, hard=True, team="app")
    return [
        b.node("n1").cpu("2").zone("a"),
        b.node("n2").cpu("1").zone("a"),
        app,
        app.pod("app-1").on("n2"),
        app.pod("app-2"),
        *web("z", "n1", cpu="300m", spec=lambda s: s.empty_dir()),
        big(cpu="1600m"),
    ]


def test_a_pod_that_is_only_expected_never_steps_aside():
    """Not even where it is only looked for who stands in the way."""
    found = made(*expected_sibling())
    assert not found.moves
    assert [room.message for room in found.rooms] == [
        "it would fit on n1 if default/z-1 (to n2) moved; default/z-1: has data on its node"
    ]


def test_what_only_explains_neither_ends_nor_changes_a_decision(monkeypatch):
    """It fails in the middle of a search, with moves of its own in the trial."""

    def failing(wanted, nearest, held):
        trial = nearest.drafts.trial
        trial.take_off(next(one for one in trial.snapshot.pods.values() if one.name == "b-1"))
        raise LookupError("some defect")

    rest = [*nodes("2", "1", "1"), *web("a", "n1"), *web("b", "n3"), big(), big("huge", cpu="40")]
    sound = made(*rest)
    monkeypatch.setattr(pending_rooms, "why_no_room", failing)
    found = made(*rest)
    assert (found.moves, found.after) == (sound.moves, sound.after)
    assert rooms(found) == rooms(sound) == {"big": ("n1", ["a-1"]), "huge": ("", [])}
    (words,) = [room.message for room in found.rooms if not room.node]
    assert "some defect" in words
    assert "please report it" in words


def agent(node, cpu="1", name="agent", spec=lambda p: p):
    """A pod of a DaemonSet for that node, which the scheduler has refused."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = b.daemonset(name).cpu(cpu).pod(f"{name}-{node}").set("spec.affinity", {"nodeAffinity": rule})
    return spec(pod.unschedulable())


def test_pods_step_aside_for_a_daemon_pod_on_its_one_node():
    found = made(*nodes("2", "2", "2"), web("a", "n1", cpu="2"), web("b", "n2", cpu="2"), agent("n1"))
    assert rooms(found) == {"agent-n1": ("n1", ["a-1"])}
    assert steps(found) == [("a-1", "n3", [])]
    assert found.after.empty_nodes == 1, (
        "a node with nothing but its own pods is empty, also if they are to come"
    )


def test_the_pods_of_a_daemon_set_get_room_one_by_one():
    """Only one other pod finds another node."""
    pods = [agent("n1"), agent("n2")]
    items = [*nodes("2", "2", "2"), web("a", "n1", cpu="2"), web("b", "n2", cpu="2"), *pods]
    assert sorted(node for node, _ in rooms(made(*items)).values()) in (["", "n1"], ["", "n2"])


@pytest.mark.parametrize(("there", "pod", "words"), [
    ([*nodes("2", "1"), *web("a", "n1", cpu="2")], agent("n1"),
        "no pods that may be moved leave room enough for it on node/n1, the only one that it may run on"),
    ([*nodes("2", "4"), *web("a", "n1", cpu="2")], agent("n1", cpu="3"), "node/n1, the only one that it may run on, is not large enough for it"),
    ([b.node("n1").cpu("2").taint("example.com/broken"), b.node("n2").cpu("4")], agent("n1"),
        "node/n1, the only one that it may run on, would not take it, whichever pods stood elsewhere: TaintToleration"),
    ([*nodes("2", "4"), *web("a", "n1", cpu="2"), b.pdb("a")], agent("n1"),
        "it would fit on n1 if default/a-1 (to n2) moved; default/a-1: PodDisruptionBudget default/a allows 0"),
], ids=["held by others", "too small", "taint", "budget"])  # fmt: skip
def test_a_daemon_pod_that_waits_has_its_line_in_the_plan(there, pod, words):
    (room,) = made(*there, pod).rooms
    assert room.pod.name == "agent-n1"
    assert words in room.message
