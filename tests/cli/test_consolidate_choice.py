"""Which nodes a consolidation would empty, decided before anything is changed."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.cli.consolidation import NodesWanted, choose
from rescheduler.configuration.document import default_configuration
from rescheduler.model.migration import PodMigration


@pytest.fixture
def web():
    return b.replicaset("web").replicas(3).cpu("1")


def found(*objects, **wanted):
    return choose(b.snapshot(*objects), default_configuration(), NodesWanted(**wanted))


def cluster(web, nodes=4, on=("n1", "n2", "n3")):
    return [
        *(b.node(f"n{i}").cpu("8") for i in range(1, nodes + 1)),
        web,
        *(web.pod(f"web-{i}").on(name) for i, name in enumerate(on)),
    ]


def test_empty_nodes_go_first_and_then_those_whose_pods_fit_on_nodes_that_stay(web):
    chosen = found(*cluster(web))
    assert chosen.empty == ("n4",)
    assert len(chosen.nodes) == 3
    (kept,) = {"n1", "n2", "n3"} - set(chosen.nodes)
    assert {move.target for move in chosen.moves} == {kept}
    assert (chosen.before.nodes, chosen.after.nodes) == (4, 1)
    assert chosen.after.cpu == pytest.approx(3 / 8)


def test_so_many_as_are_asked_for(web):
    assert found(*cluster(web), nodes=2).nodes[0] == "n4"
    assert len(found(*cluster(web), nodes=2).nodes) == 2
    assert len(found(*cluster(web), nodes=4).nodes) == 3, "the pods stay somewhere"


def test_where_fewer_nodes_go_than_could_pods_go_where_the_scheduler_would_put_them(web):
    """All could go onto the fullest node; the pods of the only one that goes are not packed there."""
    used = {"n1": "2", "n2": "2", "n3": "2", "n4": "3"}
    owners = {name: b.replicaset(f"app-{name}").cpu(cpu) for name, cpu in used.items()}
    pods = [owner.pod(f"pod-{name}").on(name) for name, owner in owners.items()]
    objects = [*(b.node(name).cpu("16") for name in used), *owners.values(), *pods]
    (packed,) = {move.target for move in found(*objects).moves}
    (move,) = found(*objects, nodes=1).moves
    assert packed not in {move.target, move.pod.node}


def test_it_warns_of_what_its_own_moves_do_and_not_of_what_more_nodes_would(web):
    assert "3 of 3 on node" in found(*cluster(web)).warnings[-1]
    of_one = found(*cluster(web), nodes=1).warnings  # the empty node goes, and no pod moves
    assert not any("more replicas" in line for line in of_one)


def test_the_nodes_that_stay_are_not_fuller_than_asked(web):
    assert found(*cluster(web), until=0.2).after.fullest <= 0.2
    assert len(found(*cluster(web), until=0.2).nodes) == 2
    assert found(*cluster(web), until=0.05).nodes == ()


def test_a_pool_is_consolidated_into_itself(web):
    nodes = [b.node(f"n{i}").cpu("8").label(pool="a" if i < 3 else "b") for i in range(1, 5)]
    pods = [web.pod(f"web-{i}").on(f"n{i + 1}") for i in range(3)]
    chosen = found(*nodes, web, *pods, pool=(("pool", "a"),))
    assert len(chosen.nodes) == 1
    assert {move.target for move in chosen.moves} | set(chosen.nodes) == {"n1", "n2"}
    assert {"n3", "n4"} <= chosen.closed


def test_a_budget_that_allows_one_at_a_time_is_waited_for_and_one_that_never_does_keeps_the_node(web):
    objects = cluster(web, nodes=2, on=("n1", "n1", "n2"))
    pods = [p.label(app="web") for p in objects[3:]]
    waits = b.pdb("web").selects(app="web").allows(0)
    waits = waits.set("status.expectedPods", 3).set("status.desiredHealthy", 2)
    assert len(found(*objects[:3], *pods, waits).nodes) == 1
    never = b.pdb("web").selects(app="web").allows(0)
    never = never.set("status.expectedPods", 3).set("status.desiredHealthy", 3)
    kept = found(*objects[:3], *pods, never)
    assert kept.nodes == ()
    assert all("web" in why for _, why in kept.stay)


def test_protections_keep_a_node_and_the_reason_is_told(web):
    objects = cluster(web, nodes=2, on=("n1", "n2", "n2"))
    objects[3] = objects[3].empty_dir()
    chosen = found(*objects)
    assert chosen.nodes == ("n2",), "the other one can go"
    (stays,) = chosen.stay
    assert stays[0] == "n1"
    assert "default/web-0" in stays[1]
    assert "data on its node" in stays[1]


def test_a_node_that_stays_although_its_pods_fit_elsewhere_says_what_keeps_it(web):
    nodes = [b.node(f"n{i}").cpu("4").memory("16Gi") for i in range(1, 4)]
    assert dict(found(*nodes).stay) == {"n3": "one node has to stay"}
    assert dict(found(*nodes, nodes=1).stay) == {"n2": "it could go, too", "n3": "it could go, too"}
    full = found(*nodes, web, web.pod("web-0").cpu("3").on("n1"), until=0.7)
    assert dict(full.stay) == {
        "n1": "default/web-0: no node that HighNodeUtilization fills has room for it",
        "n3": "without it the nodes that stay would be requested to 75%, more than 70%",
    }


def test_a_node_that_somebody_else_has_cordoned_is_left_alone_and_receives_nothing(web):
    objects = cluster(web, nodes=3, on=("n1", "n2", "n2"))
    objects[2] = objects[2].cordoned()
    chosen = found(*objects)
    assert len(chosen.nodes) == 1
    assert dict(chosen.stay)["n3"] == "it is unschedulable"


def test_an_interrupted_one_goes_first_and_its_pods_go_to_no_empty_node(web):
    objects = cluster(web, nodes=3, on=("n1", "n2", "n2"))
    objects[0] = objects[0].cordoned().label({"rescheduler.dev/consolidation": "Emptying"})
    chosen = found(*objects, nodes=1)
    assert (chosen.resumed, chosen.empty, chosen.nodes) == (("n1",), (), ("n1",))
    assert [(m.pod.name, m.target) for m in chosen.moves] == [("web-0", "n2")]
    emptied = objects[0].label({"rescheduler.dev/consolidation": "Emptied"})
    assert found(emptied, *objects[1:], nodes=1).resumed == ()


def test_moves_of_an_interrupted_one_that_are_under_way_are_waited_for(web):
    objects = cluster(web, nodes=3, on=("n1", "n2", "n2"))
    objects[0] = objects[0].cordoned().label({"rescheduler.dev/consolidation": "Emptying"})
    snapshot = b.snapshot(*objects)
    move = PodMigration(namespace="default", name="first-try", pod_name="web-0", target_node="n2")
    snapshot = dataclasses.replace(snapshot, migrations={move.key: move})
    chosen = choose(snapshot, default_configuration(), NodesWanted(nodes=1))
    assert (chosen.resumed, chosen.moves) == (("n1",), ())
    assert [(pod.name, key.name) for pod, key in chosen.under_way] == [("web-0", "first-try")]


def test_the_same_cluster_gives_the_same_answer_in_whatever_order_it_was_read(web):
    snapshot = b.snapshot(*cluster(web, nodes=6, on=("n1", "n2", "n3")))
    turned = dataclasses.replace(
        snapshot, nodes=dict(reversed(snapshot.nodes.items())), pods=dict(reversed(snapshot.pods.items()))
    )
    configuration = default_configuration()
    assert choose(snapshot, configuration, NodesWanted()) == choose(turned, configuration, NodesWanted())


@pytest.mark.parametrize(
    "annotation", ["karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/scale-down-disabled"]
)
def test_a_node_that_no_autoscaler_takes_away_stays_and_receives(web, annotation):
    objects = cluster(web.replicas(2), nodes=3, on=("n1", "n2"))
    for index in (0, 2):  # with a pod, and empty
        objects[index] = objects[index].annotate({annotation: "true"})
    chosen = found(*objects)
    assert chosen.nodes == ("n2",)
    assert dict(chosen.stay) == dict.fromkeys(("n1", "n3"), f"annotation {annotation}")


def test_an_empty_node_that_is_marked_for_cluster_autoscaler_is_not_chosen_again(web):
    objects = cluster(web)
    objects[3] = objects[3].taint("DeletionCandidateOfClusterAutoscaler", "1786925486", "PreferNoSchedule")
    chosen = found(*objects, nodes=1)
    assert (chosen.empty, len(chosen.nodes)) == ((), 1)
    assert dict(chosen.stay)["n4"] == "it is empty, and marked for cluster-autoscaler"
    assert "n4" not in {move.target for move in chosen.moves}


def test_a_marked_node_to_which_pods_have_come_is_emptied_like_any_other(web):
    objects = cluster(web.replicas(2), nodes=2, on=("n1", "n2"))
    objects[1] = objects[1].taint("DeletionCandidateOfClusterAutoscaler", "1786925486", "PreferNoSchedule")
    assert found(*objects).nodes in (("n1",), ("n2",))


def test_pods_without_requests_count_with_the_scheduler_s_defaults():
    idle = b.replicaset("idle").replicas(60)
    nodes = [b.node(f"n{i}").cpu("4").allocatable(memory="64Gi") for i in range(3)]
    chosen = found(*nodes, idle, *(idle.pod(f"idle-{i}").on(f"n{i % 3}") for i in range(60)))
    assert len(chosen.nodes) == 1, "60 pods are 6 CPUs, and two nodes have 7.2 below targetThresholds"
    assert chosen.after.cpu == pytest.approx(6 / 8)
    said, *closer = chosen.warnings
    assert "60 pods on 3 nodes" in said
    assert len(closer) == 1
    assert "default/idle: 30 of 60 on node" in closer[0]
