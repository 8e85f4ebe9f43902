"""One pod with thousands of entries in a list of its spec is decoded and judged in a time that grows with the list alone."""

import time

import pytest

from harness import builders as b
from rescheduler.scheduling.state import SchedulingState

MANY = 3000
"""About what fits into an object of 1.5 MB. In quadratic time each of these takes minutes."""
MOST_S = 5.0


def listed(i):
    return {"matchLabels": {"app": f"a{i}"}}


def term(i):
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": listed(i)}


def expression(i):
    return {"matchExpressions": [{"key": f"k{i}", "operator": "In", "values": ["v"]}]}


REQUIRED, PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
SHAPES = {
    "tolerations": ("tolerations", lambda i: {"key": f"k{i}", "operator": "Exists"}),
    "spread constraints": ("topologySpreadConstraints",
        lambda i: {"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": listed(i)}),
    "claims": ("volumes", lambda i: {"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}}),
    "anti-affinity": (f"affinity.podAntiAffinity.{REQUIRED}", term),
    "affinity": (f"affinity.podAffinity.{REQUIRED}", term),
    "preferred affinity": (f"affinity.podAffinity.{PREFERRED}", lambda i: {"weight": 1, "podAffinityTerm": term(i)}),
    "node affinity": (f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", expression),
    "preferred node affinity": (f"affinity.nodeAffinity.{PREFERRED}", lambda i: {"weight": 1, "preference": expression(i)}),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_list_takes_no_more_than_its_length(shape):
    path, entry = SHAPES[shape]
    hostile = b.pod("hostile").cpu("100m").set(f"spec.{path}", [entry(i) for i in range(MANY)])
    others = [b.pod(f"p{i}").on(f"n{i}").label({"app": f"a{i}"}) for i in range(20)]
    nodes = [b.node(f"n{i}") for i in range(20)]
    began = time.process_time()
    cluster = b.snapshot(*nodes, hostile, *others)
    state = SchedulingState(cluster)
    (pod,) = (p for p in cluster.pods.values() if p.name == "hostile")
    feasible = state.filter(pod).feasible
    state.score(pod, feasible)
    state.place(pod, "n0")
    state.filter(next(p for p in cluster.pods.values() if p.name == "p1"))
    assert time.process_time() - began < MOST_S
