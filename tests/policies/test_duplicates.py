"""Duplicates: how many copies leave a node, by the table of descheduler's RemoveDuplicates; what it says of a move is exact."""

import pytest

from harness import builders as b
from harness.rest.clusters import random_cluster
from rescheduler.planning.limits import PlanningInputs, Protections
from rescheduler.planning.planner import plan
from rescheduler.policies.duplicates import Duplicates, DuplicatesArgs
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, Tier
from rescheduler.policies.wire import NamespaceFilter
from rescheduler.scheduling.state import SchedulingState
from tests.conversion.tables import Row, small, workload

CRITICAL = 2_000_000_000
N1, N2, N3 = (small(f"n{i}") for i in (1, 2, 3))
MASTERS = [small(f"m{i}").taint("node-role.kubernetes.io/control-plane") for i in (1, 2, 3)]
FREE_MASTERS = [small(f"m{i}").label({"control-plane": ""}) for i in (1, 2, 3)]


def policy(**arguments):
    return Duplicates(DuplicatesArgs(**arguments))


def copies(name="web", make=lambda s: s, namespace="dev", **on):
    return workload(name, [node for node, count in on.items() for _ in range(count)], make, namespace)


def others():
    """Of a DaemonSet, with local storage, a mirror pod, of system priority."""
    agent = b.daemonset("agent").cpu("100m")
    mirror = b.pod("mirror").on("n1").annotate({"kubernetes.io/config.mirror": "x"})
    return [
        *[agent, agent.pod("agent-0").on("n1"), mirror.owner("Node", "n1", api_version="v1")],
        *copies("local", lambda s: s.empty_dir(), n1=1),
        *copies("critical", lambda s: s.priority(CRITICAL), "kube-system", n1=1),
    ]


def of_images(*images):
    owner = b.replicaset("web").replicas(len(images)).cpu("100m")
    return [owner, *(owner.pod(f"web-{i}").image(image).on("n1") for i, image in enumerate(images))]


def west(spec):
    return spec.node_selector({"dc": "west"})


ROWS = [
    Row("3, 0", [N1, N2], [copies(n1=3)], 1),
    Row("3, 0 of two workloads", [N1, N2], [copies(n1=3), copies(namespace="test", n1=3)], 2),
    Row("protected pods", [N1, N2], [others()], 0),
    Row("3, 0 beside protected pods", [N1, N2], [copies(n1=3), copies(namespace="test", n1=3), others()], 2),
    Row("different images", [N1, N2], [of_images("foo", "bar")], 0),
    Row("two of four with one image", [N1, N2, N3], [of_images("foo", "bar", "baz", "foo")], 1),
    Row("the other node is tainted", [N1, N3.taint("hardware", "gpu")], [copies(n1=3)], 0),
    Row("the other node does not meet the selector", [N1, small("n4").label(dc="east")], [copies(make=west, n1=3)], 0),
    Row("the other node is cordoned", [N1, small("n5").cordoned()], [copies(n1=3)], 0),
    Row("the other node is full", [N1, small("n6", 200)], [copies(n1=3), [b.pod("eater").cpu("150m").on("n6")]], 0),
    Row("the other node has room for one", [N1, small("n6", 200)], [copies(n1=3), [b.pod("saver").cpu("100m").on("n6")]], 1),
    Row("5, 3, 1", [N1, N2, N3], [copies(n1=5, n2=3, n3=1)], 2),
    Row("5, 3, 1 and 1, 3, 5", [N1, N2, N3],
        [copies(n1=5, n2=3, n3=1), copies("other", n1=1, n2=3, n3=5)], 4),
    Row("2, 0, 0", [N1, N2, N3], [copies(n1=2)], 1),
    Row("1, 0, 0", [N1, N2, N3], [copies(n1=1)], 0),
    Row("5, 3, 1, and three that none tolerates", [N1, N2, N3, *MASTERS], [copies(n1=5, n2=3, n3=1)], 2),
    Row("5, 3, 1, and three that none wants", [N1, N2, N3, *FREE_MASTERS],
        [copies(make=lambda s: s.requires_node("control-plane", operator="DoesNotExist"), n1=5, n2=3, n3=1)], 2),
]  # fmt: skip


def moves(row, **arguments):
    cluster = b.snapshot(row.nodes, *row.pods)
    rules = Protections(priority_threshold=CRITICAL, namespaces=NamespaceFilter(exclude=()))
    inputs = PlanningInputs(protections=rules, unlimited=True)
    return plan(cluster, [policy(**arguments)], inputs, SchedulingState(cluster)).moves


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_how_many_go(row):
    assert len(moves(row)) == row.goes


def test_kinds_of_controllers_that_are_excluded():
    assert moves(ROWS[0], exclude_owner_kinds=("ReplicaSet",)) == ()


def test_what_it_says_of_a_move_is_exact():
    duplicates = policy()
    seen = 0
    for seed in range(20):
        cluster = random_cluster(seed)
        state = SchedulingState(cluster)
        view = PolicyView.of(cluster, state)
        pods = [pod for pod in cluster.pods.values() if pod.node]
        for pod, replacement in zip(pods[:4], reversed(pods), strict=False):
            before, change = duplicates.badness(view), duplicates.change(pod, replacement, view)
            for i, node in enumerate(state.node_names):
                mark = state.checkpoint()
                state.remove(pod)
                state.place(replacement, node)
                if node != pod.node:
                    assert (duplicates.badness(view) - before).tolist() == change[:, i].tolist()
                    seen += bool(change[Tier.SOFT, i])
                state.rollback(mark)
    assert seen > 20


def test_one_pair_is_one_pod(app):
    duplicates = policy()
    cluster = b.snapshot(b.node("n0"), app("web", ["n0", "n0"]))
    assert duplicates.badness(PolicyView.of(cluster, SchedulingState(cluster)))[Tier.SOFT] == ONE
