"""Volcano's PodGroups are read where their CRD is served, and nothing is asked for where it is not."""

import msgspec
import pytest

from kube_sandbox.sandbox import Sandbox
from rescheduler.controller import run
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import discover
from rescheduler.kube.retry import NO_RETRY
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import MAXIMUM_RUNTIME

VERSION = {
    "name": "v1beta1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.volcano.sh"},
    "spec": {"group": "scheduling.volcano.sh", "scope": "Namespaced",
        "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}, "versions": [VERSION]},
}  # fmt: skip


def test_pod_groups_are_read_where_they_are_served():
    cluster = Sandbox()
    api = KubeApi(cluster.transport, NO_RETRY)
    assert Kind.VOLCANO_POD_GROUP not in run._to_read(discover(api))
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    assert Kind.VOLCANO_POD_GROUP in run._to_read(discover(api))
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "night", "namespace": "default", "annotations": {MAXIMUM_RUNTIME: "500s"}},
        "spec": {"minMember": 3},
    }
    resource = RESOURCES[Kind.VOLCANO_POD_GROUP]
    api.create(resource.object_path("default", ""), group)
    (page,) = api.list(resource.collection_path)
    (found,) = Decoder().page(Kind.VOLCANO_POD_GROUP, page).records
    assert (found.namespace, found.name, found.maximum_runtime) == ("default", "night", "500s")
    assert found.min_member == 3


@pytest.mark.parametrize("spec", [
    None,
    {},
    [],
    "x",
    3,
    {"minMember": None},
    {"minMember": "3"},
    {"minMember": True},
    {"minMember": -1},
    {"minMember": 2.5},
    {"minMember": 10**30},
    {"minMember": {}},
    {"schedulingPolicy": {"basic": {}}},
    {"schedulingPolicy": {"gang": {"minCount": "2"}}},
    {"schedulingPolicy": {"gang": None}},
    {"schedulingPolicy": []},
])  # fmt: skip
@pytest.mark.parametrize("kind", [Kind.VOLCANO_POD_GROUP, Kind.COSCHEDULING_POD_GROUP, Kind.POD_GROUP])
def test_a_number_of_members_that_cannot_be_read_is_none(kind, spec):
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": spec}
    (found,) = Decoder().page(kind, msgspec.json.encode({"items": [group]})).records
    assert (found.name, found.min_member) == ("g", 0)
