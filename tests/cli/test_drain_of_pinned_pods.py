"""Pods that only the drained nodes can take, and primaries whose budget opens once their node is cordoned, as with kubectl drain."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.cli.drain_plan import DrainOptions, plan_drain
from rescheduler.configuration.document import default_configuration

PINNED = DrainOptions(evict_pinned=True)
HOSTNAME = "kubernetes.io/hostname"


def plan(*objects, options=None, nodes=("n1",)):
    return plan_drain(b.snapshot(*objects), default_configuration(), nodes, options or DrainOptions())


def nodes(cpu="4"):
    return [b.node(name).cpu(cpu) for name in ("n1", "n2", "n3")]


def by_selector():
    owner = b.replicaset("osd").replicas(1).node_selector({HOSTNAME: "n1"})
    return [owner, owner.pod("osd-0").on("n1")]


def by_local_volume():
    terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n1"]}]}]
    disk = b.volume("disk").set("spec.nodeAffinity", {"required": {"nodeSelectorTerms": terms}})
    owner = b.replicaset("osd").replicas(1).claim("data")
    return [owner, disk, b.claim("data").bound_to("disk"), owner.pod("osd-0").on("n1")]


@pytest.mark.parametrize(("made", "words"), [(by_selector, "nodeSelector"), (by_local_volume, "its volume")])
def test_a_pinned_pod_is_refused_with_the_flag_that_evicts_it(made, words):
    objects = [*nodes(), *made()]
    ((_, why),) = plan(*objects).refused
    assert (words in why, "--evict-pinned" in why) == (True, True)
    found = plan(*objects, options=PINNED)
    ((pod, told),) = found.evictions
    assert (pod.name, found.refused, found.moves) == ("osd-0", (), ())
    assert "no node but n1 can take it" in told
    assert "it waits until that takes pods again" in told


def test_the_flag_concerns_no_pod_that_only_lacks_room_or_meets_a_cordon_or_a_taint():
    owner = b.replicaset("web").replicas(1).cpu("1")
    others = [
        b.node("n2").cpu("500m"),
        b.node("n3").cpu("4").set("spec.unschedulable", True),
        b.node("n4").cpu("4").taint("x"),
    ]
    found = plan(b.node("n1").cpu("4"), *others, owner, owner.pod("web-0").on("n1"), options=PINNED)
    assert (found.evictions, len(found.refused)) == ((), 1)
    assert "--evict-pinned" not in found.refused[0][1]


def test_a_volume_that_is_not_known_pins_nothing():
    owner = b.replicaset("db").replicas(1).claim("data")
    objects = [*nodes(), owner, b.claim("data").bound_to("unknown"), owner.pod("db-0").on("n1")]
    found = plan(*objects, options=PINNED)
    assert (found.evictions, len(found.refused)) == ((), 1)


@settings(max_examples=30, deadline=None)
@given(
    zones=st.lists(st.sampled_from("ab"), min_size=4, max_size=4),
    selectors=st.lists(
        st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}, *({HOSTNAME: f"n{i}"} for i in range(1, 5))]),
        max_size=5,
    ),
    drained=st.sets(st.sampled_from(["n1", "n2", "n3", "n4"]), min_size=1, max_size=3),
)
def test_only_pods_that_no_other_node_can_take_are_evicted_without_room(zones, selectors, drained):
    labels = {f"n{i + 1}": {"zone": zone, HOSTNAME: f"n{i + 1}"} for i, zone in enumerate(zones)}

    def matching(selector):
        return {name for name, has in labels.items() if selector.items() <= has.items()}

    objects = [b.node(name).label(has).cpu("8") for name, has in labels.items()]
    standing = {}
    for i, selector in enumerate(selectors):
        where = sorted(matching(selector) & drained)
        if where:
            owner = b.replicaset(f"w{i}").replicas(1).node_selector(selector)
            objects += [owner, owner.pod(f"w{i}-0").on(where[0])]
            standing[f"w{i}-0"] = selector
    found = plan(*objects, options=PINNED, nodes=sorted(drained))
    assert found.refused == ()
    pinned = {name for name, selector in standing.items() if matching(selector) <= drained}
    assert {pod.name for pod, _ in found.evictions} == pinned
    assert {move.pod.name for move in found.moves} == standing.keys() - pinned


def primary(**budget):
    db = b.statefulset("db").replicas(2).label(app="db")
    pods = [db.pod("db-0").label(app="db", role="primary").on("n1"), db.pod("db-1").label(app="db").on("n2")]
    selected = {"app": "db", "role": "primary"} if budget.pop("role", True) else {"app": "db"}
    return [db, *pods, b.pdb("db").selects(**selected).allows(0, **budget)]


def test_a_budget_of_a_role_that_another_pod_may_get_is_waited_for():
    found = plan(*nodes(), *primary(healthy=1, desired=1))
    assert found.refused == ()
    assert [move.pod.name for move in found.moves] == ["db-0"]
    ((pod, why),) = found.waits
    assert (pod.name, "PodDisruptionBudget default/db allows it once it selects another pod" in why) == (
        "db-0",
        True,
    )


def test_a_budget_of_all_pods_of_a_controller_still_refuses_the_drain():
    ((pod, why),) = plan(*nodes(), *primary(role=False, healthy=2, desired=2)).refused
    assert (pod.name, "never allows a disruption" in why) == ("db-0", True)


def test_nodes_that_are_emptied_to_save_them_do_not_wait_for_a_role():
    options = DrainOptions(keeps_protections=True)
    ((pod, _),) = plan(*nodes(), *primary(healthy=1, desired=1), options=options).refused
    assert pod.name == "db-0"


def test_a_pinned_pod_leaves_last_and_comes_back_after_the_maintenance(work, drain, uncordon):
    work.deploy("osd", 1, node="n1", nodeSelector={HOSTNAME: "n1"})
    work.deploy("web", 2, node="n1")
    refused = drain("n1")
    assert (refused.exit_code, "--evict-pinned" in refused.stderr) == (1, True)
    assert "n1" not in work.cordoned()
    done = drain("n1", "--evict-pinned")
    assert done.exit_code == 0, done.output
    assert "n1" not in {pod["spec"]["nodeName"] for pod in work.ready("web", 2)}
    assert [pod["spec"].get("nodeName") for pod in work.pods("osd")] == [None]
    (evicted,) = [
        line
        for line in done.stderr.splitlines()
        if "evicted without room: no node but n1" in line and "will be" not in line
    ]
    steps, _, _ = done.stderr.partition("POD ")
    assert steps.rindex("web-") < steps.index(evicted)
    assert uncordon("n1").exit_code == 0
    assert {pod["spec"]["nodeName"] for pod in work.ready("osd", 1)} == {"n1"}
    work.remove("Deployment", "osd")
    work.remove("Deployment", "web")


def test_a_primary_leaves_once_its_operator_has_seen_the_cordon(work, drain, uncordon):
    """The operator gives the role to the other pod when the node of the primary is cordoned, as CloudNativePG does."""
    first, second = work.deploy("pg", 2, kind="StatefulSet")
    path = "/api/v1/namespaces/default/pods"
    work.api.patch(f"{path}/{first}", {"metadata": {"labels": {"role": "primary"}}}).expect()
    work.budget("pg", minAvailable=1, selector={"matchLabels": {"app": "pg", "role": "primary"}})
    node = work.node_of(first)

    def operate():
        work.wait(lambda: node in work.cordoned())
        for pod, role in ((first, None), (second, "primary")):
            work.api.patch(f"{path}/{pod}", {"metadata": {"labels": {"role": role}}}).expect()

    operator = threading.Thread(target=operate)
    operator.start()
    done = drain(node, "--timeout", "3m")
    operator.join()
    assert done.exit_code == 0, done.output
    assert f"{first} waits for its budget: PodDisruptionBudget default/pg allows it once" in done.stderr
    assert work.node_of(first) != node
    uncordon(node)
    work.remove("StatefulSet", "pg")
