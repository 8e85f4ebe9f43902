"""Builders of the single kinds; ``rescheduler.testing.builders`` has a function for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from rescheduler.model.kinds import Kind
from rescheduler.model.records import DisruptionBudget, Node, Pod, Workload
from rescheduler.model.storage_records import PersistentVolumeClaim
from rescheduler.testing.builder_base import CREATED, Builder, PodSpecMethods, object_manifest


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
