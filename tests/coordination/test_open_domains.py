"""The zones in which a node may be that is added for the replacement of a pod."""

import pytest

from harness import builders as b
from rescheduler.coordination.placement import Placement
from rescheduler.replacements.replacement import Replacements

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def where(owner, *, cordoned="n-a", nodes=(("n-a", "a"), ("n-b", "b"), ("n-c", "c"))):
    """For the pod on the node of zone a; each node has one pod, and no capacity left."""
    owner = owner.replicas(len(nodes)).template_label(app="web").label(app="web")
    made = [b.node(name).zone(zone).cpu("1") for name, zone in nodes]
    made = [node.cordoned() if node.manifest()["metadata"]["name"] == cordoned else node for node in made]
    pods = [owner.pod(f"web-{name}").label(app="web").on(name) for name, _ in nodes]
    snapshot = b.snapshot(owner, *made, *pods)
    placement = Placement(namespace="rescheduler")
    placement.begin(replacements := Replacements(snapshot))
    (pod,) = [pod for pod in snapshot.pods.values() if pod.node == "n-a"]
    coming = replacements.of(pod).pod
    assert coming is not None
    found = placement.open_domains(coming, pod)
    if found is None:
        return None
    ((requirement,),) = [term.expressions for term in found.terms]
    return requirement.key, requirement.values


def web():
    return b.replicaset("web").cpu("1")


def test_spread_by_zone_leaves_the_zone_of_the_pod_that_leaves():
    assert where(web().spread(ZONE, app="web")) == (ZONE, ("a",))


def test_so_does_anti_affinity_by_zone():
    assert where(web().apart(ZONE, app="web")) == (ZONE, ("a",))


@pytest.mark.parametrize(
    "owner",
    [web(), web().apart(HOST, app="web"), web().spread(HOST, app="web")],
    ids=["no rule", "apart", "spread"],
)
def test_rules_about_single_nodes_leave_every_zone(owner):
    assert where(owner) is None


def test_a_skew_that_allows_more_leaves_more_zones():
    assert where(web().spread(ZONE, max_skew=2, app="web")) == (ZONE, ("a", "b", "c"))


def test_where_the_rules_leave_no_zone_none_is_named():
    doubled = (("n-a", "a"), ("n-a2", "a"), ("n-b", "b"))
    assert where(web().apart(ZONE, app="web"), nodes=doubled) is None
