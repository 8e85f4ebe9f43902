"""Builders of single kinds of objects: an immutable manifest under construction, and what each kind has besides.

``harness.builders`` has a function for each kind, which is the way in.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar, cast

import msgspec

from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.records import DisruptionBudget, Node, Pod, Workload
from rescheduler.model.storage_records import PersistentVolumeClaim

Manifest = dict[str, Any]
RecordT = TypeVar("RecordT")

NOW_S = 1_800_000_000.0
"""Time of snapshots, if a test does not say otherwise (2027-01-15T08:00:00Z)."""

CREATED = "2027-01-01T00:00:00Z"
"""Creation time of built objects: two weeks before ``NOW_S``."""


class Builder(Generic[RecordT]):
    """A manifest under construction. Each method gives a changed copy."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.kind = Kind(manifest["kind"])

    def manifest(self) -> Manifest:
        """The object as JSON would have it; the caller may change it."""
        return copy.deepcopy(self._manifest)

    def encoded(self) -> bytes:
        """The object in JSON."""
        return msgspec.json.encode(self._manifest)

    def build(self) -> RecordT:
        """The record, decoded from the manifest."""
        return cast("RecordT", Decoder().record(self.kind, self.encoded()))

    def set(self, path: str, value: Any) -> Self:
        """Set any field: ``set("spec.template.spec.hostNetwork", True)``. Keys with dots need their own method."""
        *parents, last = path.split(".")
        manifest = place = dict(self._manifest)
        for name in parents:  # what is not on the path is shared, since no manifest changes
            place[name] = place = dict(place.get(name, {}))
        place[last] = copy.deepcopy(value)
        return type(self)(manifest)

    def append(self, path: str, *values: Any) -> Self:
        """Append to any list: ``append("spec.tolerations", {...})``."""
        found: Any = self._manifest
        for name in path.split("."):
            found = (found or {}).get(name)
        return self.set(path, [*(found or []), *values])

    def label(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Add labels."""
        return self._merge("labels", {**(labels or {}), **more})

    def annotate(self, annotations: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Add annotations."""
        return self._merge("annotations", {**(annotations or {}), **more})

    def uid(self, uid: str) -> Self:
        """Set the uid; the default is KIND-NAMESPACE-NAME in lower case."""
        return self.set("metadata.uid", uid)

    def version(self, resource_version: str) -> Self:
        """Set the resourceVersion."""
        return self.set("metadata.resourceVersion", resource_version)

    def created(self, time: str) -> Self:
        """Set the creation time (RFC 3339)."""
        return self.set("metadata.creationTimestamp", time)

    def deleting(self, time: str = "2027-01-15T07:59:00Z") -> Self:
        """Mark as being deleted."""
        return self.set("metadata.deletionTimestamp", time)

    def owner(self, kind: str, name: str, uid: str = "", api_version: str = "apps/v1") -> Self:
        """Set the controller; a missing uid is the one that a builder of that kind and name has."""
        namespace = self._manifest["metadata"].get("namespace", "")
        reference = {
            "apiVersion": api_version,
            "kind": kind,
            "name": name,
            "uid": uid or default_uid(kind, namespace, name),
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return self.set("metadata.ownerReferences", [reference])

    def owned_by(self, owner: Builder[Any]) -> Self:
        """Set the controller to what another builder builds."""
        manifest = owner._manifest
        meta = manifest["metadata"]
        return self.owner(manifest["kind"], meta["name"], meta["uid"], manifest["apiVersion"])

    def _merge(self, field: str, pairs: Mapping[str, str]) -> Self:
        return self.set(f"metadata.{field}", {**self._manifest["metadata"].get(field, {}), **pairs})


class PodSpecMethods(Builder[RecordT]):
    """What pods and the templates of workloads have in common. The first container is ``main``."""

    spec_path = "spec"

    def cpu(self, amount: str | float) -> Self:
        """CPU request of the main container."""
        return self.requests(cpu=str(amount))

    def memory(self, amount: str) -> Self:
        """Memory request of the main container."""
        return self.requests(memory=amount)

    def requests(self, amounts: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Requests of the main container; names with signs go into the mapping."""
        containers = self._containers()
        resources = containers[0].setdefault("resources", {})
        resources["requests"] = {**resources.get("requests", {}), **(amounts or {}), **more}
        return self._spec("containers", containers)

    def container(self, container: Manifest) -> Self:
        """Add a container."""
        return self.append(f"{self.spec_path}.containers", container)

    def init_container(self, container: Manifest) -> Self:
        """Add an init container (``restartPolicy: Always`` makes it a sidecar)."""
        return self.append(f"{self.spec_path}.initContainers", container)

    def image(self, image: str) -> Self:
        """Image of the main container."""
        containers = self._containers()
        containers[0]["image"] = image
        return self._spec("containers", containers)

    def host_port(self, port: int) -> Self:
        """Take a port on the node."""
        containers = self._containers()
        entry: Manifest = {"containerPort": port, "hostPort": port, "protocol": "TCP"}
        containers[0]["ports"] = [*containers[0].get("ports", []), entry]
        return self._spec("containers", containers)

    def priority(self, priority: int, class_name: str = "") -> Self:
        """Priority, and the name of its class."""
        built = self._spec("priority", priority)
        return built.set(f"{self.spec_path}.priorityClassName", class_name) if class_name else built

    def node_selector(self, labels: Mapping[str, str]) -> Self:
        """Only nodes with these labels."""
        return self._spec("nodeSelector", dict(labels))

    def requires_node(self, key: str, *values: str, operator: str = "In") -> Self:
        """Required node affinity: one more term (terms are ORed)."""
        term = {"matchExpressions": [_requirement(key, operator, values)]}
        path = f"{self.spec_path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        return self.append(f"{path}.nodeSelectorTerms", term)

    def prefers_node(self, key: str, *values: str, operator: str = "In", weight: int = 1) -> Self:
        """Preferred node affinity."""
        term = {
            "weight": weight,
            "preference": {"matchExpressions": [_requirement(key, operator, values)]},
        }
        path = f"{self.spec_path}.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        return self.append(path, term)

    def near(self, topology_key: str, weight: int = 0, **match_labels: str) -> Self:
        """Pod affinity to pods with these labels; required unless ``weight`` is given."""
        return self._pod_term("podAffinity", topology_key, weight, match_labels)

    def apart(self, topology_key: str, weight: int = 0, **match_labels: str) -> Self:
        """Pod anti-affinity to pods with these labels; required unless ``weight`` is given."""
        return self._pod_term("podAntiAffinity", topology_key, weight, match_labels)

    def spread(
        self,
        topology_key: str,
        max_skew: int = 1,
        *,
        hard: bool = True,
        min_domains: int = 0,
        **match_labels: str,
    ) -> Self:
        """A topology spread constraint."""
        constraint: Manifest = {
            "maxSkew": max_skew,
            "topologyKey": topology_key,
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": {"matchLabels": match_labels},
        }
        if min_domains:
            constraint["minDomains"] = min_domains
        return self.append(f"{self.spec_path}.topologySpreadConstraints", constraint)

    def tolerate(self, key: str = "", value: str = "", effect: str = "", operator: str = "") -> Self:
        """Tolerate a taint; without value any of its values."""
        toleration = {"key": key, "operator": operator or ("Equal" if value else "Exists"), "effect": effect}
        if value:
            toleration["value"] = value
        return self.append(f"{self.spec_path}.tolerations", {k: v for k, v in toleration.items() if v})

    def gate(self, name: str) -> Self:
        """Add a scheduling gate."""
        return self.append(f"{self.spec_path}.schedulingGates", {"name": name})

    def claim(self, name: str) -> Self:
        """Mount a PersistentVolumeClaim."""
        return self.volume({"name": name, "persistentVolumeClaim": {"claimName": name}})

    def empty_dir(self, name: str = "scratch") -> Self:
        """Mount local scratch space."""
        return self.volume({"name": name, "emptyDir": {}})

    def volume(self, volume: Manifest) -> Self:
        """Add any volume."""
        return self.append(f"{self.spec_path}.volumes", volume)

    def scheduler(self, name: str) -> Self:
        """Another scheduler's pod."""
        return self._spec("schedulerName", name)

    def _pod_term(self, field: str, topology_key: str, weight: int, match_labels: Mapping[str, str]) -> Self:
        term: Manifest = {"topologyKey": topology_key, "labelSelector": {"matchLabels": dict(match_labels)}}
        path = f"{self.spec_path}.affinity.{field}"
        if weight:
            preferred = {"weight": weight, "podAffinityTerm": term}
            return self.append(f"{path}.preferredDuringSchedulingIgnoredDuringExecution", preferred)
        return self.append(f"{path}.requiredDuringSchedulingIgnoredDuringExecution", term)

    def _spec(self, field: str, value: Any) -> Self:
        return self.set(f"{self.spec_path}.{field}", value)

    def _containers(self) -> list[Manifest]:
        place: Any = self._manifest
        for name in f"{self.spec_path}.containers".split("."):
            place = place[name]
        return cast("list[Manifest]", copy.deepcopy(place))


def default_uid(kind: str, namespace: str, name: str) -> str:
    """The uid that builders give."""
    return "-".join(part for part in (kind.lower(), namespace, name) if part)


def object_manifest(kind: Kind, name: str, namespace: str = "", **fields: Any) -> Manifest:
    """A manifest with complete metadata."""
    resource = RESOURCES[kind]
    meta: Manifest = {
        "name": name,
        "uid": default_uid(kind, namespace, name),
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": CREATED,
    }
    if resource.namespaced:
        meta["namespace"] = namespace or "default"
    group = f"{resource.group}/{resource.version}" if resource.group else resource.version
    return {"apiVersion": group, "kind": kind.value, "metadata": meta, **fields}


def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Manifest:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


class PodBuilder(PodSpecMethods[Pod]):
    """A pod; Pending until ``on`` puts it on a node, which makes it Running and Ready."""

    def on(self, node_name: str) -> Self:
        """Run on a node, Ready since its creation."""
        return (
            self.set("spec.nodeName", node_name)
            .phase("Running")
            .set("status.startTime", CREATED)
            .condition("PodScheduled", "True")
            .condition("Ready", "True")
        )

    def phase(self, phase: str) -> Self:
        """Set status.phase."""
        return self.set("status.phase", phase)

    def not_ready(self) -> Self:
        """Running, but not Ready."""
        return self.condition("Ready", "False", "ContainersNotReady")

    def nominated(self, node_name: str) -> Self:
        """Set status.nominatedNodeName."""
        return self.set("status.nominatedNodeName", node_name)

    def unschedulable(self, message: str = "0/1 nodes are available") -> Self:
        """Pending, and the scheduler said why."""
        return self.condition("PodScheduled", "False", "Unschedulable", message)

    def condition(self, kind: str, status: str, reason: str = "", message: str = "") -> Self:
        """Set a condition."""
        others = [c for c in self._manifest.get("status", {}).get("conditions", []) if c["type"] != kind]
        new = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": CREATED,
        }
        return self.set("status.conditions", [*others, {k: v for k, v in new.items() if v}])


class NodeBuilder(Builder[Node]):
    """A Ready node of 4 CPU, 16 GiB, 110 pods."""

    def cpu(self, amount: str | float) -> Self:
        """Allocatable CPU."""
        return self.allocatable(cpu=str(amount))

    def memory(self, amount: str) -> Self:
        """Allocatable memory."""
        return self.allocatable(memory=amount)

    def pods(self, count: int) -> Self:
        """How many pods it admits."""
        return self.allocatable(pods=str(count))

    def allocatable(self, amounts: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Allocatable amounts; names with signs go into the mapping."""
        merged = {**self._manifest["status"]["allocatable"], **(amounts or {}), **more}
        return self.set("status.allocatable", merged).set("status.capacity", merged)

    def zone(self, zone: str) -> Self:
        """Set the zone and region labels."""
        return self.label({"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r1"})

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """Add a taint."""
        taint = {"key": key, "value": value, "effect": effect}
        return self.append("spec.taints", {k: v for k, v in taint.items() if v})

    def cordoned(self) -> Self:
        """Unschedulable, with the taint that the node controller adds."""
        return self.set("spec.unschedulable", value=True).taint("node.kubernetes.io/unschedulable")

    def not_ready(self) -> Self:
        """Not Ready, without the taint that the node controller adds."""
        return self.set("status.conditions", [{"type": "Ready", "status": "False"}])

    def condition(self, kind: str, status: str = "True", since: str = "") -> Self:
        """Add a condition, Ready or another one; ``since``: when it last changed."""
        known = {"lastTransitionTime": since} if since else {}
        return self.append("status.conditions", {"type": kind, "status": status, **known})

    def image(self, name: str, size_bytes: int) -> Self:
        """An image that is on the node."""
        return self.append("status.images", {"names": [name], "sizeBytes": size_bytes})


class WorkloadBuilder(PodSpecMethods[Workload]):
    """A controller with its template; labels of the template are its selector."""

    spec_path = "spec.template.spec"

    def replicas(self, count: int, ready: int | None = None) -> Self:
        """Desired replicas, all of them updated and (unless said otherwise) ready."""
        status = {
            "observedGeneration": 1,
            "replicas": count,
            "updatedReplicas": count,
            "readyReplicas": count if ready is None else ready,
        }
        return self.set("spec.replicas", count).set("status", status)

    def template_label(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Add labels of the template and of the selector."""
        merged = {**self._manifest["spec"]["template"]["metadata"]["labels"], **(labels or {}), **more}
        return self.set("spec.template.metadata.labels", merged).set("spec.selector", {"matchLabels": merged})

    def pod(self, name: str) -> PodBuilder:
        """A pod as this controller makes it."""
        template = self._manifest["spec"]["template"]
        namespace = self._manifest["metadata"]["namespace"]
        built = PodBuilder(
            object_manifest(Kind.POD, name, namespace, spec=template["spec"], status={"phase": "Pending"})
        )
        return built.label(template["metadata"]["labels"]).owned_by(self)


class BudgetBuilder(Builder[DisruptionBudget]):
    """A PodDisruptionBudget that allows nothing."""

    def selects(self, **match_labels: str) -> Self:
        """Set the selector."""
        return self.set("spec.selector", {"matchLabels": match_labels})

    def allows(self, disruptions: int, healthy: int = 3, desired: int = 0) -> Self:
        """Set the status: disruptions allowed, healthy pods, wanted healthy pods."""
        return self.set(
            "status",
            {
                "observedGeneration": 1,
                "disruptionsAllowed": disruptions,
                "currentHealthy": healthy,
                "desiredHealthy": desired or max(healthy - disruptions, 0),
                "expectedPods": healthy,
            },
        )


class ClaimBuilder(Builder[PersistentVolumeClaim]):
    """A PersistentVolumeClaim."""

    def bound_to(self, volume_name: str) -> Self:
        """Bound, as the volume controller leaves it."""
        return (
            self.set("spec.volumeName", volume_name)
            .annotate({"pv.kubernetes.io/bind-completed": "yes"})
            .set("status.phase", "Bound")
        )
