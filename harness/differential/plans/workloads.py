"""Random workloads: controllers with the history of their templates, and the pods that each template left behind."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.differential.manifests import Manifest, metadata, namespaced
from harness.differential.plans.births import Admission, comes_from_current, pod_of, stateful_pod
from harness.differential.plans.templates import APPS, TemplateMaker
from rescheduler.model.names import ANNOTATION_MODE

HASH = "pod-template-hash"
NAMESPACES = ("red", "green")
_KINDS = (
    *("Deployment", "StatefulSet", "ReplicaSet") * 5,
    *("Deployment", "ReplicationController") * 2,
    *("Job", "Workflow"),
)
_HASHES = ("5d4f8c7b9", "2e832088", "77e31", "6c9d")


class Draft(NamedTuple):
    """What a workload of any kind is made of."""

    namespace: str
    name: str
    app: str
    template: Manifest
    replicas: int


@dataclass(slots=True)
class Made:
    """The objects of one workload, and its pods, which have no nodes yet."""

    objects: list[Manifest] = field(default_factory=list)
    pods: list[Manifest] = field(default_factory=list)


class WorkloadMaker:
    """Makes the workloads of one cluster."""

    def __init__(
        self, rng: random.Random, templates: TemplateMaker, admission: Admission, before: Admission
    ) -> None:
        """``before``: what the API server made of pods when all but the newest of each workload were created."""
        self._rng = rng
        self._templates = templates
        self._admission = admission
        self._before = before

    def workload(self, number: int) -> Made:
        """A workload of some kind, with 1 to 8 pods."""
        rng = self._rng
        app = rng.choice(APPS)
        draft = Draft(
            rng.choice(NAMESPACES),
            f"{app}{number}",
            app,
            self._templates.template(app),
            rng.choice((1, 2, 3, 3, 4, 6, 8)),
        )
        if rng.random() < 0.06:
            mode = rng.choice(("ReadWriteMany", "ReadWriteOncePod", "ReadWriteOnce"))
            claim = {"claimName": f"{mode.lower()}-{draft.name}"}
            draft.template["spec"]["volumes"] = [{"name": "shared", "persistentVolumeClaim": claim}]
        made = self._of_kind(rng.choice(_KINDS), draft)
        for i, pod in enumerate(made.pods):
            self._admit(pod, newest=i + 1 == len(made.pods))
        return made

    def _of_kind(self, kind: str, draft: Draft) -> Made:
        if kind == "Deployment":
            return self._deployment(draft)
        if kind == "StatefulSet":
            return self._stateful_set(draft)
        if kind in ("Job", "Workflow"):
            return self._run_once(kind, draft)
        return self._bare(kind, draft)

    def _deployment(self, draft: Draft) -> Made:
        """A Deployment; now and then it is paused between two of its ReplicaSets."""
        rng, made, replicas = self._rng, Made(), draft.replicas
        draft.template["metadata"]["labels"]["deployment"] = draft.name
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": draft.app, "deployment": draft.name}},
            "template": draft.template,
            "strategy": {"type": rng.choice(("Recreate", "RollingUpdate", "RollingUpdate"))},
        }
        owner = namespaced("apps/v1", "Deployment", draft.namespace, draft.name, spec)
        if rng.random() < 0.4:
            owner["metadata"]["annotations"] = {
                ANNOTATION_MODE: rng.choice(("StartFirst", "StartFirst", "Soft"))
            }
        made.objects.append(owner)
        parts = [(draft.template, replicas)]
        if replicas > 1 and rng.random() < 0.2:
            old = rng.randint(1, replicas - 1)
            before = self._templates.changed(draft.template, draft.app)
            parts = [(before, old), (draft.template, replicas - old)]
            spec["paused"] = True
        for (one, count), digest in zip(parts, rng.sample(_HASHES, len(parts)), strict=True):
            self._replica_set(owner, one, digest, count, made)
        return made

    def _replica_set(
        self, owner: Manifest, template: Manifest, digest: str, replicas: int, made: Made
    ) -> None:
        """A ReplicaSet of a Deployment: its template never changes."""
        meta, template = owner["metadata"], copy.deepcopy(template)
        template["metadata"]["labels"][HASH] = digest
        selector = {**owner["spec"]["selector"]["matchLabels"], HASH: digest}
        spec = {"replicas": replicas, "selector": {"matchLabels": selector}, "template": template}
        found = namespaced("apps/v1", "ReplicaSet", meta["namespace"], f"{meta['name']}-{digest}", spec)
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"], "uid": meta["uid"]}
        found["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
        found["metadata"]["labels"] = dict(template["metadata"]["labels"])
        made.objects.append(found)
        for i in range(replicas):
            made.pods.append(pod_of(template, found, f"{found['metadata']['name']}-{i}"))

    def _bare(self, kind: str, draft: Draft) -> Made:
        """A ReplicaSet without Deployment, or a ReplicationController; its template may have changed under its pods."""
        rng, made, template = self._rng, Made(), draft.template
        template["metadata"]["labels"]["set"] = draft.name
        own = {"app": draft.app, "set": draft.name}
        now = self._templates.changed(template, draft.app) if rng.random() < 0.4 else template
        selector = own if kind == "ReplicationController" else {"matchLabels": own}
        spec = {"replicas": draft.replicas, "selector": selector, "template": now}
        version = "v1" if kind == "ReplicationController" else "apps/v1"
        owner = namespaced(version, kind, draft.namespace, draft.name, spec)
        if kind == "ReplicaSet" and rng.random() < 0.4:
            owner["metadata"]["annotations"] = {ANNOTATION_MODE: "StartFirst"}
        made.objects.append(owner)
        newer = rng.choice((0, 0, draft.replicas // 2))
        for i in range(draft.replicas):
            made.pods.append(pod_of(now if i < newer else template, owner, f"{draft.name}-{i}x"))
        return made

    def _run_once(self, kind: str, draft: Draft) -> Made:
        """Pods that nothing replaces: a Job counts an eviction as a failure, other programs run them to their end."""
        made = Made()
        version = "batch/v1" if kind == "Job" else "argoproj.io/v1alpha1"
        draft.template["metadata"]["labels"]["set"] = draft.name
        spec = {"template": draft.template, "parallelism": draft.replicas, "backoffLimit": 0}
        owner = namespaced(version, kind, draft.namespace, draft.name, spec)
        made.objects.extend([owner] if kind == "Job" else [])
        for i in range(draft.replicas):
            made.pods.append(pod_of(draft.template, owner, f"{draft.name}-{i}x"))
        return made

    def _stateful_set(self, draft: Draft) -> Made:
        """A StatefulSet: rolled out, held back by its partition, or updated on deletion of its pods only."""
        rng, made, template = self._rng, Made(), draft.template
        name, replicas = draft.name, draft.replicas
        template["metadata"]["labels"]["set"] = name
        old, new = f"{name}-{rng.choice(_HASHES)}", f"{name}-86c5"
        state = rng.choice(("same", "same", "partition", "partition", "OnDelete", "OnDelete"))
        now = template if state == "same" else self._templates.changed(template, draft.app)
        first = rng.choice((0, 0, 0, 3))
        partition = rng.choice((0, replicas)) if state == "same" else rng.randint(1, replicas)
        spec: Manifest = {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": draft.app, "set": name}},
            "template": now,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
        }
        if state == "OnDelete":
            spec["updateStrategy"] = {"type": "OnDelete"}
        if first:
            spec["ordinals"] = {"start": first}
        if rng.random() < 0.25:
            spec["volumeClaimTemplates"] = [_claim_template(rng)]
        owner = namespaced("apps/v1", "StatefulSet", draft.namespace, name, spec)
        owner["metadata"]["generation"] = 2
        current = new if state == "same" else old
        made.objects.append(owner)
        updated = 0
        for ordinal in range(first, first + replicas):
            from_old = state != "same" and (comes_from_current(owner, ordinal) or rng.random() < 0.5)
            updated += not from_old
            made_of, revision = (template, old) if from_old else (now, new)
            made.pods.append(stateful_pod(made_of, revision, owner, ordinal))
        owner["status"] = {
            "observedGeneration": 2,
            "replicas": replicas,
            "readyReplicas": replicas,
            "currentRevision": current,
            "updateRevision": new,
            "currentReplicas": replicas if state == "same" else replicas - updated,
            "updatedReplicas": updated,
        }
        for number, (revision, one) in enumerate({old: template, new: now}.items(), 1):
            made.objects.append(_revision(owner, revision, one, number))
        return made

    def _admit(self, pod: Manifest, *, newest: bool) -> None:
        (self._admission if newest else self._before).admit(pod)
        if newest:
            pod["metadata"]["creationTimestamp"] = "2026-01-01T00:05:00Z"
        # Resized in place since then, by people or by a VerticalPodAutoscaler.
        if self._rng.random() < 0.04:
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            requests["cpu"] = self._rng.choice(("10m", "300m", "1500m"))


def _claim_template(rng: random.Random) -> Manifest:
    spec = {
        "accessModes": [rng.choice(("ReadWriteOnce", "ReadWriteOncePod"))],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "wait",
    }
    return {"metadata": {"name": "data"}, "spec": spec}


def _revision(owner: Manifest, name: str, template: Manifest, number: int) -> Manifest:
    """A ControllerRevision as the controller of StatefulSets stores it (newRevision)."""
    meta = {**metadata(name), "namespace": owner["metadata"]["namespace"]}
    meta["uid"] = f"uid-ControllerRevision-{meta['namespace']}-{name}"
    meta["labels"] = {
        **template["metadata"]["labels"],
        "controller.kubernetes.io/hash": name.rpartition("-")[2],
    }
    reference = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    meta["ownerReferences"] = [{**reference, "controller": True}]
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": meta,
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        "revision": number,
    }
