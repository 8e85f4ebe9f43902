"""The scheduler of the sandbox after an outage: of a new list it is told what is gone before what was nominated."""

import random

import pytest

from harness.histories.clusters import lone_pod
from kube_sandbox.controllers.unstructured import POD, spec, status
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Outage, Sandbox


def pod(name):
    return lone_pod(name, cpu_milli=2000)


def find(cluster, name):
    return cluster.api.get(POD, "default", name)


def hand_over(cluster):
    """The room of ``holder`` is nominated to ``claimant``, then given up."""
    claimant = pod("claimant")
    claimant["spec"]["schedulingGates"] = [{"name": "example.com/held"}]
    cluster.api.create(claimant)
    claimant = find(cluster, "claimant")
    cluster.api.patch(claimant, {"status": {"nominatedNodeName": "n1"}}, subresource="status")
    cluster.api.delete(find(cluster, "holder"), grace_s=0)


@pytest.fixture
def cluster():
    """One node, full, and somebody who waits for it."""
    found = Sandbox([SandboxNode(name="n1", cpu="3")], kubelet=KubeletSettings(start_s=0.1))
    for name in ("holder", "competitor"):
        found.api.create(pod(name))
        found.advance(1.0)
    assert spec(find(found, "holder"))["nodeName"] == "n1"
    assert "nodeName" not in spec(find(found, "competitor"))
    return found


def test_who_hears_in_order_leaves_a_nominated_room_alone(cluster):
    hand_over(cluster)
    cluster.advance(20.0)
    assert "nodeName" not in spec(find(cluster, "competitor"))


def test_who_reads_a_new_list_gives_a_nominated_room_away_for_a_moment(cluster):
    now_s = cluster.clock()
    back = Outage(
        server_s=now_s + 1.0, controllers_s=now_s + 1.0, kubelets_s=now_s + 1.0, scheduler_s=now_s + 10.0
    )
    cluster.lose_api_server(back)
    cluster.advance(2.0)
    hand_over(cluster)
    cluster.advance(7.0)
    assert "nodeName" not in spec(find(cluster, "competitor"))
    assert status(find(cluster, "competitor")).get("phase") == "Pending"
    cluster.advance(20.0)
    assert spec(find(cluster, "competitor"))["nodeName"] == "n1"


@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_back_before_the_server(seed):
    outage = Outage.draw(random.Random(seed), 100.0, 105.0)  # noqa: S311 - reproducible
    assert min(outage.controllers_s, outage.kubelets_s, outage.scheduler_s) >= outage.server_s == 105.0
