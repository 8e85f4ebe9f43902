"""Measured usage of the sandbox's nodes, read by the program's own client."""

from kube_sandbox.usage_meter import ANNOTATION_CPU, UsageMeter
from rescheduler.kube.client import KubeApi
from rescheduler.kube.metrics_api import node_usage


def usage(lab):
    return {u.node: u.cpu_milli for u in node_usage(KubeApi(lab.cluster.transport))}


def test_usage_is_a_share_of_requests_or_what_the_pod_says(lab, objects):
    one = lab(2, cpu="4")
    assert usage(one) == {}
    one.cluster.add(UsageMeter(one.cluster.server, one.api, share=0.5))
    one.create(objects.pod("idle", cpu="2", nodeName="n1"))
    busy = objects.pod("busy", cpu="1", nodeName="n2")
    busy["metadata"]["annotations"] = {ANNOTATION_CPU: "3500m"}
    one.create(busy)
    one.cluster.advance(20)
    assert usage(one) == {"n1": 1000, "n2": 3500}


def test_node_that_goes_is_no_longer_measured(lab):
    one = lab(2)
    one.cluster.add(UsageMeter(one.cluster.server, one.api))
    one.cluster.advance(1)
    one.api.delete(one.get("", "Node", "n2", ""))
    one.cluster.advance(16)
    assert usage(one) == {"n1": 0}
