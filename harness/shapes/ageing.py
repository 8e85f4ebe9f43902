"""What time has done to a cluster: templates changed under their pods, rollouts held back, webhooks that came later, pods resized.

So what comes back for a pod is another pod than it is. Drawn apart from all else, which is the same with and without.
"""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from harness.differential.manifests import Manifest
from harness.differential.plans.births import Admission, comes_from_current, pod_of, stateful_pod
from harness.differential.plans.controllers import Controllers, bound
from harness.differential.plans.dumps import Form
from harness.shapes.nodes import TAINTED
from harness.shapes.templates import NAMESPACES, PRIORITIES, changed
from harness.shapes.workloads import SHARED_MODES, Made, revision_of
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import ANNOTATION_MODE
from rescheduler.planning.limits import PlanningInputs
from rescheduler.policies.framework import Policy
from rescheduler.policies.registry import REGISTRY

_MODES: Final = (MoveMode.START_FIRST, MoveMode.START_FIRST, MoveMode.SOFT)
_SETS: Final = ("ReplicaSet", "ReplicationController")


class Ageing:
    """The past of one cluster."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"aged {seed}")  # noqa: S311 -- test data, not secrets
        self.admission = self._admission()
        """What the API server makes of pods now."""
        self._before = replace(self.admission, sidecars={}) if self._rng.random() < 0.3 else self.admission

    def _admission(self) -> Admission:
        rng, (first, second, *_) = self._rng, sorted(NAMESPACES)
        requests = {"cpu": rng.choice(("10m", "100m", "500m")), "memory": "64Mi"}
        sidecar = {"name": "sidecar", "image": "plain", "resources": {"requests": requests}}
        return Admission(
            priorities=PRIORITIES,
            sidecars={first: sidecar} if rng.random() < 0.15 else {},
            tolerations={second: {"key": TAINTED[1], "operator": "Exists"}} if rng.random() < 0.1 else {},
            default_class=rng.choice(("low", "middle")) if rng.random() < 0.15 else "",
        )

    def change(self, made: Made) -> None:
        """The workload since its first pods."""
        rng, kind = self._rng, made.objects[0]["kind"] if made.objects else ""
        if kind in ("Deployment", *_SETS) and rng.random() < 0.4:
            made.objects[0]["metadata"]["annotations"] = {ANNOTATION_MODE: rng.choice(_MODES)}
        if kind in ("Deployment", *_SETS, "StatefulSet") and rng.random() < 0.06:
            self._share(made)
        if kind in _SETS and rng.random() < 0.4:
            self._change_template(made.objects[0], made)
        elif kind == "StatefulSet" and rng.random() < 0.7:
            self._roll_out(made.objects[0], made)

    def _share(self, made: Made) -> None:
        mode = self._rng.choice(SHARED_MODES)
        claim = {"claimName": f"{mode.lower()}-{made.objects[0]['metadata']['name']}"}
        for one in (*made.objects, *made.pods):
            if one["kind"] != "ControllerRevision":  # which has the StatefulSet's own template
                spec = one["spec"].get("template", one)["spec"]
                spec.setdefault("volumes", []).append({"name": "shared", "persistentVolumeClaim": claim})

    def _change_template(self, owner: Manifest, made: Made) -> None:
        """Some pods were created since then."""
        now = self._changed(owner)
        owner["spec"]["template"] = now
        for i in range(self._rng.choice((0, 0, len(made.pods) // 2))):
            made.pods[i] = pod_of(now, owner, made.pods[i]["metadata"]["name"])

    def _changed(self, owner: Manifest) -> Manifest:
        template = owner["spec"]["template"]
        return changed(self._rng, template, template["metadata"]["labels"]["app"])

    def _roll_out(self, owner: Manifest, made: Made) -> None:
        """Held back by its partition, or made by the deletion of pods only."""
        rng, spec, name, pods = self._rng, owner["spec"], owner["metadata"]["name"], len(made.pods)
        before, now, first = spec["template"], self._changed(owner), rng.choice((0, 0, 0, 3))
        old, new = f"{name}-77e31", owner["status"]["updateRevision"]
        spec["template"] = now
        if rng.random() < 0.5:
            spec["updateStrategy"] = {"type": "OnDelete"}
        else:
            spec["updateStrategy"]["rollingUpdate"]["partition"] = rng.randint(1, pods)
        if first:
            spec["ordinals"] = {"start": first}
        owner["metadata"]["generation"] = owner["status"]["observedGeneration"] = 2
        made.pods.clear()
        for ordinal in range(first, first + pods):
            from_old = comes_from_current(owner, ordinal) or rng.random() < 0.5
            template, revision = (before, old) if from_old else (now, new)
            made.pods.append(stateful_pod(template, revision, owner, ordinal))
        labels = [pod["metadata"]["labels"]["controller-revision-hash"] for pod in made.pods]
        counts = {"currentReplicas": labels.count(old), "updatedReplicas": labels.count(new)}
        owner["status"] |= {"currentRevision": old, **counts}
        made.objects[1:] = [revision_of(owner, old, before, 1), revision_of(owner, new, now, 2)]

    def admit(self, pods: Sequence[Manifest]) -> None:
        """The newest as the API server does now, all others as it did; some were resized in place since then."""
        rng = self._rng
        for pod in pods:
            newest = pod is pods[-1]
            (self.admission if newest else self._before).admit(pod)
            if newest:
                pod["metadata"]["creationTimestamp"] = "2026-01-01T00:05:00Z"
            if rng.random() < 0.04:
                requests = pod["spec"]["containers"][0]["resources"]["requests"]
                requests["cpu"] = rng.choice(("10m", "300m", "1500m"))
            if rng.random() < 0.02:
                pod["spec"]["schedulerName"] = "another-scheduler"

    def moved_before(self, pod: Manifest, objects: Sequence[Manifest]) -> Manifest:
        """A few of a ReplicaSet are as mode StartFirst brings them to their nodes."""
        meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
        owner = (meta.get("ownerReferences") or [{"kind": ""}])[0]["kind"]
        if owner != "ReplicaSet" or not node or self._rng.random() >= 0.04:
            return pod
        controllers = Controllers(objects, self.admission)
        found = bound(controllers.adopted(controllers.started_first(pod, node), pod), node)
        kept = {key: meta[key] for key in ("name", "uid", "deletionTimestamp") if key in meta}
        return {**found, "metadata": {**found["metadata"], **kept}, "status": pod["status"]}

    def policies(self, given: list[Policy]) -> list[Policy]:
        """Every second time those that are missing, too, but not a second one that fills nodes."""
        names = {policy.name for policy in given}
        others = [name for name in REGISTRY if name not in names and "Utilization" not in name]
        more = others if self._rng.random() < 0.5 else []
        return given + [REGISTRY[name].build(REGISTRY[name].args()) for name in more]

    def inputs(self, given: PlanningInputs) -> PlanningInputs:
        """Now and then with a mode of its own for a policy."""
        mode = self._rng.choice((MoveMode.START_FIRST, MoveMode.RESERVE_FIRST))
        return msgspec.structs.replace(given, modes={"NodeTaints": mode} if self._rng.random() < 0.3 else {})

    def form(self) -> Form:
        """Half of the clusters are read from dumps."""
        forms: list[Form] = [Form.OBJECTS, Form.OBJECTS, *Form]
        return self._rng.choice(forms)
