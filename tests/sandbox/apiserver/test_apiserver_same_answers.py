"""The same requests, in the same order, to the embedded API server and to the real one: the answers agree.

Left out on purpose: messages (they carry Go syntax), the order of conditions, what only a real server checks (values and rules of
schemas, ownership of fields, workloads), and the empty structures that Go writes into Nodes and Events.
"""

import copy
import json
import re
import time
from urllib.parse import parse_qsl

import pytest

from harness import documents
from harness.controlplane import manifests
from harness.controlplane.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api, HttpTransport
from kube_sandbox.apiserver import ApiServer, serve

T = "/api/v1/namespaces/same"
APPS = "/apis/apps/v1/namespaces/same"
RSV = "/apis/rescheduler.dev/v1alpha1/reservations"
JOBS = "/apis/batch/v1/namespaces/same/jobs"
SETTLE = ("WAIT", "", None)


def pod(name, **spec):
    container = {"name": "c", "image": "i:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"schedulerName": "nobody", "terminationGracePeriodSeconds": 5, "containers": [container], **spec},
    }  # fmt: skip


def requesting(**resources):
    return pod("q", containers=[{"name": "c", "image": "i", "resources": resources}])


def workload(kind, name, **spec):
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def job(name, **pod_spec):
    spec = {"suspend": True, "template": {"spec": {"containers": [{"name": "c", "image": "i"}], **pod_spec}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def reservation(name, **spec):
    owners = [{"object": {"name": "x", "namespace": "same"}}]
    return documents.reservation(name, {"containers": [{"name": "c"}]}, owners, **spec)


def binding(name, **metadata):
    target = {"kind": "Node", "name": "no-such-node"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}


def eviction(name, **options):
    return {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options,
    }  # fmt: skip


def config_map(name, finalizers=None, labels=None, **data):
    metadata = {"name": name, **({"finalizers": finalizers} if finalizers else {})}
    metadata |= {"labels": labels} if labels else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def gates(*names):
    return [{"name": name} for name in names]


def required(*nodes, only=()):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}
    if only:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": list(only)}]
    wish = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": wish}}


def ungated(name, gate, **spec):
    """One patch takes a gate off and changes what the pod asks for."""
    body = {"spec": {"schedulingGates": [{"name": gate, "$patch": "delete"}], **spec}}
    return ("PATCH", f"{T}/pods/{name}", body, STRATEGIC)


def conditions(name, *types):
    found = [{"type": one, "status": "True"} for one in types]
    return ("PATCH", f"{T}/pods/{name}/status", {"status": {"conditions": found}}, STRATEGIC)


REQUESTS = [
    ("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "same"}}),
    SETTLE,
    # Creating pods.
    ("POST", f"{T}/pods", pod("a")),
    ("POST", f"{T}/pods", pod("a")),
    ("GET", f"{T}/pods/none", None),
    ("POST", f"{T}/pods", pod("UPPER")),
    ("POST", f"{T}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": {}}),
    ("POST", f"{T}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": pod("b")["spec"]}),
    ("POST", f"{T}/pods", pod("g", schedulingGates=gates("x.io/g", "x.io/h"))),
    ("POST", f"{T}/pods", pod("g2", schedulingGates=gates("x.io/g"), nodeName="n")),
    ("POST", f"{T}/pods", pod("pc", priorityClassName="none")),
    ("POST", f"{T}/pods", pod("pc", priorityClassName="system-cluster-critical")),
    ("POST", f"{T}/pods", pod("pc2", priority=7)),
    ("POST", f"{T}/pods", requesting(requests={"cpu": "-1"})),
    ("POST", f"{T}/pods", requesting(requests={"cpu": "2"}, limits={"cpu": "1"})),
    ("POST", f"{T}/pods", {**pod("l"), "metadata": {"name": "l", "labels": {"a": "b c"}}}),
    ("POST", f"{T}/pods", {**pod("l"), "metadata": {"name": "l", "namespace": "other"}}),
    ("POST", "/api/v1/namespaces/none/pods", pod("a")),
    ("POST", f"{T}/pods", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    ("POST", f"{T}/pods", {"apiVersion": "v1", "metadata": {"name": "x"}}),
    ("POST", f"{T}/pods", ["x"]),
    ("POST", f"{T}/pods?dryRun=Some", pod("x")),
    # Changing pods.
    (
        "PATCH",
        f"{T}/pods/g",
        {"spec": {"schedulingGates": [{"name": "x.io/g", "$patch": "delete"}]}},
        STRATEGIC,
    ),
    ("PATCH", f"{T}/pods/a", {"spec": {"schedulingGates": gates("x.io/g")}}, STRATEGIC),
    ("PATCH", f"{T}/pods/a", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE),
    ("PATCH", f"{T}/pods/g", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE),
    ("PATCH", f"{T}/pods/g", {"spec": {"nodeSelector": {"a": "c"}}}, MERGE),
    ("PATCH", f"{T}/pods/a", {"metadata": {"uid": "wrong"}}, MERGE),
    ("PATCH", f"{T}/pods/a", {"metadata": {"resourceVersion": "1"}}, MERGE),
    (
        "PATCH",
        f"{T}/pods/a/status",
        {"metadata": {"uid": "wrong"}, "status": {"nominatedNodeName": "n1"}},
        MERGE,
    ),
    ("PATCH", f"{T}/pods/a/status", {"status": {"nominatedNodeName": "n1"}}, MERGE),
    ("PATCH", f"{T}/pods/a", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}, MERGE),
    ("PATCH", f"{T}/pods/a", {"spec": {"priority": 5}}, MERGE),
    ("PATCH", f"{T}/pods/a", [{"op": "test", "path": "/metadata/name", "value": "z"}], JSON_PATCH),
    ("PATCH", f"{T}/pods/a", [{"op": "remove", "path": "/spec/zzz"}], JSON_PATCH),
    ("PATCH", f"{T}/pods/a", [{"op": "add", "path": "/metadata/labels/new", "value": "1"}], JSON_PATCH),
    ("PATCH", f"{T}/pods/a", {"x": 1}, "application/json"),
    ("PATCH", f"{T}/pods/none", {"metadata": {"labels": {"a": "b"}}}, MERGE),
    ("PATCH", f"{T}/pods/a", {}, "application/nonsense"),
    ("PATCH", f"{T}/pods/a", {"metadata": {"uid": "wrong"}}, STRATEGIC),
    conditions("a", "example.com/a"),
    conditions("a", "example.com/b"),
    # Changing gated pods: what they ask for may become narrower, until the last gate is gone.
    ("POST", f"{T}/pods", pod("gated", schedulingGates=gates("x.io/g", "x.io/h"))),
    ("PATCH", f"{T}/pods/gated", {"spec": {"schedulingGates": gates("x.io/g", "x.io/i")}}, MERGE),
    ("PATCH", f"{T}/pods/gated", {"spec": {"nodeSelector": {"disk": "ssd"}}}, MERGE),
    ("PATCH", f"{T}/pods/gated", {"spec": {"nodeSelector": {"disk": None}}}, MERGE),
    ("PATCH", f"{T}/pods/gated", {"spec": required("n1", "n2")}, MERGE),
    ("PATCH", f"{T}/pods/gated", {"spec": required("n1", "n2", "n3")}, MERGE),
    ("PATCH", f"{T}/pods/gated", {"spec": required("n1", "n2", only=["n1"])}, MERGE),
    ungated("gated", "x.io/h"),
    ungated("gated", "x.io/g", **required("n1", only=["n1"])),
    ("PATCH", f"{T}/pods/gated", {"spec": required("n2", only=["n1"])}, MERGE),
    ("PATCH", f"{T}/pods/gated", {"spec": {"nodeSelector": {"disk": "hdd"}}}, MERGE),
    (
        "PATCH",
        f"{T}/pods/gated",
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}},
        STRATEGIC,
    ),
    # binding and eviction
    ("POST", f"{T}/pods/g/binding", binding("g")),
    ("POST", f"{T}/pods/a/binding", binding("a", uid="wrong")),
    ("POST", f"{T}/pods/a/binding", binding("a")),
    ("POST", f"{T}/pods/a/binding", binding("a")),
    ("GET", f"{T}/pods/a", None),
    ("POST", f"{T}/pods/a/eviction", eviction("a", preconditions={"uid": "wrong"})),
    ("POST", f"{T}/pods/none/eviction", eviction("none")),
    ("POST", f"{T}/pods/a/eviction", eviction("other")),
    (
        "PATCH",
        f"{T}/pods/a/status",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        STRATEGIC,
    ),
    ("POST", f"{T}/pods/a/eviction", eviction("a")),
    ("POST", f"{T}/pods/a/eviction", eviction("a")),
    ("DELETE", f"{T}/pods/a", {"gracePeriodSeconds": 3}),
    ("DELETE", f"{T}/pods/a", {"gracePeriodSeconds": 0}),
    ("DELETE", f"{T}/pods/a", None),
    ("DELETE", f"{T}/pods/g", {"preconditions": {"uid": "wrong"}}),
    ("DELETE", f"{T}/pods/g", {"preconditions": {"resourceVersion": "1"}}),
    ("DELETE", f"{T}/pods/g", None),
    # workloads (nothing of them runs: their controllers write into none of these answers)
    ("POST", f"{APPS}/deployments", workload("Deployment", "d", replicas=0)),
    ("GET", f"{APPS}/deployments/d/scale", None),
    ("PATCH", f"{APPS}/deployments/d/scale", {"spec": {"replicas": -1}}, MERGE),
    (
        "PUT",
        f"{APPS}/deployments/d/scale",
        {"metadata": {"name": "d", "namespace": "same", "resourceVersion": "1"}},
    ),
    ("POST", f"{APPS}/replicasets", workload("ReplicaSet", "r", replicas=0)),
    ("POST", f"{APPS}/statefulsets", workload("StatefulSet", "s", replicas=0, serviceName="s")),
    ("POST", f"{APPS}/daemonsets", workload("DaemonSet", "ds")),
    ("POST", JOBS, job("j", restartPolicy="Never")),
    # custom resources
    ("POST", RSV, reservation("dr")),
    ("POST", f"{RSV}?fieldValidation=Strict", reservation("bad", junk=1)),
    ("PATCH", f"{RSV}/dr", {"spec": {"ttl": "5m"}}, STRATEGIC),
    ("DELETE", f"{RSV}/dr", None),
    # finalizers, apply, updates
    ("POST", f"{T}/configmaps", config_map("cm", ["x.io/f"], a="b")),
    ("PATCH", f"{T}/configmaps/cm", config_map("cm"), APPLY),
    ("PATCH", f"{T}/configmaps/cm2?fieldManager=m", config_map("cm2", a="c", d="e"), APPLY),
    ("DELETE", f"{T}/configmaps/cm", None),
    ("PATCH", f"{T}/configmaps/cm", {"metadata": {"finalizers": None}}, MERGE),
    ("GET", f"{T}/configmaps/cm", None),
    ("PUT", f"{T}/configmaps/cm2", config_map("cm3")),
    ("PUT", f"{T}/configmaps/none", config_map("none")),
    (
        "PUT",
        f"{T}/configmaps/cm2",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm2", "uid": "wrong"}},
    ),
    (
        "PUT",
        f"{T}/configmaps/cm2",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm2", "resourceVersion": "1"}},
    ),
    ("PUT", f"{T}/configmaps/cm2", config_map("cm2", z="9")),
    ("POST", f"{T}/configmaps", config_map("-a")),
    ("POST", f"{T}/configmaps", config_map("x" * 254)),
    ("POST", f"{T}/configmaps", config_map("one", labels={"a": "1"}, x="1", y="2")),
    (
        "PATCH",
        f"{T}/configmaps/one",
        {"data": {"x": None, "z": "3"}, "metadata": {"labels": {"a": None}}},
        MERGE,
    ),
    (
        "PATCH",
        f"{T}/configmaps/one",
        [{"op": "test", "path": "/data/y", "value": "2"}, {"op": "replace", "path": "/data/y", "value": "5"}],
        JSON_PATCH,
    ),
    # dry runs
    ("POST", f"{T}/configmaps?dryRun=All", config_map("ghost", a="b")),
    ("GET", f"{T}/configmaps/ghost", None),
    ("PATCH", f"{T}/configmaps/one?dryRun=All", {"data": {"y": "8"}}, MERGE),
    ("DELETE", f"{T}/configmaps/one?dryRun=All", None),
    ("GET", f"{T}/configmaps/one", None),
    ("DELETE", f"{T}/configmaps/one", {"preconditions": {"uid": "wrong"}}),
    # lists and paths
    ("GET", f"{T}/pods?labelSelector=a%20b", None),
    ("GET", f"{T}/pods?fieldSelector=spec.zzz=1", None),
    ("GET", f"{T}/pods?limit=x", None),
    ("GET", f"{T}/pods?continue=zzz", None),
    ("GET", f"{T}/pods?resourceVersion=999999999", None),
    ("GET", f"{T}/pods?resourceVersionMatch=Exact", None),
    ("GET", f"{T}/pods?watch=1&sendInitialEvents=true", None),
    ("GET", f"{T}/pods?watch=1&resourceVersionMatch=NotOlderThan", None),
    ("GET", "/apis/nope/v1/things", None),
    ("GET", "/api/v1/things", None),
    ("GET", "/nope", None),
    ("PUT", f"{T}/pods", {}),
    ("POST", f"{T}/pods/pc", {}),
    ("DELETE", "/api/v1/namespaces/default", None),
    ("DELETE", "/api/v1/namespaces/same", None),
]
_UNCOMPARED = frozenset({
    "managedFields", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp",
    "lastTransitionTime", "lastProbeTime", "message", "observedGeneration",
})  # fmt: skip
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_USERS = frozenset({"admin", "sandbox-admin"})
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")


def comparable(value):
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key not in _UNCOMPARED}
    if isinstance(value, list):
        found = [comparable(item) for item in value]
        return sorted(found, key=str) if any("type" in i for i in found if isinstance(i, dict)) else found
    if isinstance(value, str):
        if value in _USERS:
            return "ADMINISTRATOR"
        return _TOKEN_VOLUME.sub("TOKEN", _UID.sub("UID", value))
    return value


def answers(api):
    found = []
    for method, address, body, *kind in REQUESTS:
        if method == "WAIT":
            time.sleep(2)
            continue
        path, _, query = address.partition("?")
        content_type = kind[0] if kind else "application/json"
        answer = api.call(
            method, path, copy.deepcopy(body), content_type=content_type, **dict(parse_qsl(query))
        )
        shown = comparable(answer.body) | {
            "HTTP": answer.status,
            "Retry-After": answer.headers.get("retry-after"),
        }
        found.append((f"{method} {address} {json.dumps(body)}", shown))
    return found


@pytest.mark.realcluster
def test_both_api_servers_give_the_same_answers(control_plane):
    embedded = serve(ApiServer())
    try:
        mine = Api(HttpTransport(embedded.url))
        manifests.apply(mine, manifests.load())
        pairs = zip(answers(control_plane.api()), answers(mine), strict=True)
        assert [(request, ours, real) for (request, real), (_, ours) in pairs if ours != real] == []
    finally:
        embedded.close()
