"""The pod that a controller really creates in place of one that is gone, read off the manifests of a cluster."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from harness.differential.manifests import Manifest
from harness.differential.plans.births import Admission, comes_from_current, ordinal_of, pod_of, stateful_pod
from rescheduler.migrations.start_first_replacement import replacement_manifest
from rescheduler.model.records import ObjectKey
from rescheduler.planning.start_first_mode import replacement_labels

REPLACING = ("ReplicaSet", "ReplicationController", "StatefulSet")
"""Controllers that create a pod for each that is gone."""
SUFFIX = "-again"
"""Ends the name of a replacement that has a name of its own."""


class NoReplacement(Exception):  # noqa: N818 -- an answer: the controller creates no pod
    """No pod comes back; the text says why."""


class Controllers:
    """The controllers of one cluster."""

    def __init__(self, objects: Iterable[Manifest], admission: Admission) -> None:
        self._admission = admission
        self._by_uid: dict[str, Manifest] = {}
        self._revisions: dict[tuple[str, str], Manifest] = {}
        for item in objects:
            meta = item["metadata"]
            if item["kind"] == "ControllerRevision":
                self._revisions[meta["namespace"], meta["name"]] = item["data"]["spec"]["template"]
            else:
                self._by_uid[meta["uid"]] = item

    def replacement(self, old: Manifest) -> Manifest:
        """The pending pod that comes once the old one is deleted.

        Raises:
            NoReplacement: none comes.
        """
        owner = self._owner(old)
        if owner["kind"] == "StatefulSet":
            return self._admitted(self._stateful(owner, old["metadata"]["name"]))
        name = f"{old['metadata']['name']}{SUFFIX}"
        return self._admitted(pod_of(owner["spec"]["template"], owner, name))

    def started_first(self, old: Manifest, target: str) -> Manifest:
        """The pending pod that our controller creates before the old one is evicted."""
        owner, meta = self._owner(old), old["metadata"]
        template = copy.deepcopy(owner["spec"]["template"])
        alone = not owner["metadata"].get("ownerReferences")
        pod = replacement_manifest(
            template,
            key=ObjectKey(meta["namespace"], f"{meta['name']}{SUFFIX}"),
            migration=ObjectKey(meta["namespace"], "migration"),
            labels=replacement_labels(template["metadata"]["labels"], "migration", alone=alone),
            says="",
            node=target,
        )
        pod["metadata"] |= {"uid": f"{meta['uid']}{SUFFIX}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        pod["status"] = {"phase": "Pending"}
        return self._admission.admit(pod)

    def adopted(self, born: Manifest, old: Manifest) -> Manifest:
        """A pod that was started first, once its ReplicaSet has adopted it: labels change, nothing else does."""
        owner, found = self._owner(old), copy.deepcopy(born)
        labels = owner["spec"]["template"]["metadata"]["labels"]
        found["metadata"]["labels"] = {**found["metadata"]["labels"], **labels}
        found["metadata"]["ownerReferences"] = copy.deepcopy(old["metadata"]["ownerReferences"])
        return found

    def _admitted(self, pod: Manifest) -> Manifest:
        node = pod["spec"].get("nodeName")
        if node:
            raise NoReplacement(f"its template names {node}, so that no scheduler is asked")
        return self._admission.admit(pod)

    def _owner(self, pod: Manifest) -> Manifest:
        references = pod["metadata"].get("ownerReferences") or ()
        reference = next((one for one in references if one.get("controller")), None)
        owner = self._by_uid.get(reference["uid"]) if reference is not None else None
        if owner is None or owner["kind"] not in REPLACING:
            kind = reference["kind"] if reference is not None else "no controller"
            raise NoReplacement(f"{kind} creates no pod in place of an evicted one")
        return owner

    def _stateful(self, owner: Manifest, name: str) -> Manifest:
        ordinal, status = ordinal_of(name), owner["status"]
        revision, template = status["updateRevision"], owner["spec"]["template"]
        if comes_from_current(owner, ordinal):
            revision = status["currentRevision"]
            template = self._revisions[owner["metadata"]["namespace"], revision]
        return stateful_pod(template, revision, owner, ordinal)


def bound(pod: Manifest, node: str) -> Manifest:
    """The pod as it runs on a node."""
    found: Manifest = {**pod, "spec": {**pod["spec"], "nodeName": node}}
    return {**found, "status": {"phase": "Running"}}


def ending(pod: Manifest) -> Manifest:
    """The running pod after its eviction, while it ends."""
    times = {"deletionTimestamp": "2026-01-01T00:10:00Z", "deletionGracePeriodSeconds": 30}
    return {**pod, "metadata": {**pod["metadata"], **times}}
