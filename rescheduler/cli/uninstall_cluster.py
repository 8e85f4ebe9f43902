"""What rescheduler has put into a cluster, and how each of it is taken away.

Objects are read as they are, not decoded: also one that the controller cannot read must go. Every method gives what is
still there; of a kind that is not served nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import yaml

from rescheduler.cli.controller_deployment import CONTROLLER_PODS
from rescheduler.cli.uninstall_steps import Removal
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import proves_absent, resource_of
from rescheduler.kube.errors import ForbiddenError, NotFoundError, NotServedError, RejectedError
from rescheduler.kube.installation import Manifest, path_of
from rescheduler.model import names
from rescheduler.model.kept_empty import Hold, parse_kept_empty
from rescheduler.model.kinds import CONFIG_MAPS, RESOURCES, Kind
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.reservation import ReservationPhase

Json = dict[str, Any]

_TAINTS: Final = (names.ANNOTATION_HANDOVER_TAINT, names.TAINT_KEPT_EMPTY)
_OVER: Final = (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
_BINDING: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/rescheduler-read"
_GATES: Final = (names.GATE, names.GATE_ROOM)
_GATE_OFF: Final = {
    "metadata": {"annotations": {names.ANNOTATION_RESERVATION: None, names.KOORDINATOR_AFFINITY: None}},
    "spec": {"schedulingGates": [{"name": gate, "$patch": "delete"} for gate in _GATES]},
}
_NOTES: Final = {
    "annotations": (names.ANNOTATION_RESERVATION, names.ANNOTATION_REPLACES),
    "labels": (names.LABEL_START_FIRST,),
}
"""What pods keep of rooms and moves."""


@dataclass(frozen=True, slots=True)
class InstalledCluster:
    """A cluster with the controller's namespace. Methods raise ApiError, TransportError."""

    api: KubeApi
    namespace: str

    # Moves and the controller

    def moves(self) -> list[Removal]:
        """What would begin or go on: planning, moves, and rooms that are being handed over."""
        return [*self._planning(), *map(self._move, self._unfinished()), *self._hand_overs()]

    def controller(self, deployments: Sequence[Manifest]) -> list[Removal]:
        """The Deployment and its pods."""
        pods = self._items(self._pods(self.namespace), labelSelector=CONTROLLER_PODS)
        leaving = (Removal(what=_title("Pod", pod), how="ends") for pod in pods)
        return [*self.objects(deployments), *leaving]

    def may_act(self, deployments: Sequence[Manifest]) -> bool:
        """False if neither a Deployment nor a holder of the Lease is there: then nothing ends by itself."""
        return bool(self.objects(deployments)) or bool(self.lease()[0])

    def lease(self) -> tuple[str, str, float]:
        """Who leads ("": nobody), when the Lease was renewed last, and how long it lasts, in seconds."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{names.LEASE_NAME}"
        lease = (self._read(path) or {}).get("spec") or {}
        lasts_s = float(lease.get("leaseDurationSeconds") or 0)
        return lease.get("holderIdentity") or "", lease.get("renewTime") or "", lasts_s

    def elsewhere(self) -> str:
        """The namespace of the Lease of another controller, if there is none here; "": there is none, or it may not be known.

        Anybody may have a Lease of this name. Where our roles are bound nobody else can say.
        """
        query = {"fieldSelector": f"metadata.name={names.LEASE_NAME}"}
        try:
            found = self._items("/apis/coordination.k8s.io/v1/leases", **query)
            places = {lease["metadata"]["namespace"] for lease in found}
            if self.namespace in places or not places:
                return ""
            bound = self._read(_BINDING) or {}
        except ForbiddenError:
            return ""
        ours = {subject.get("namespace") for subject in bound.get("subjects") or ()}
        return min(places & ours, default="")

    def leader_is_outside(self) -> bool:
        """True if whoever holds the Lease is no pod of the Deployment, so that nothing here stops it."""
        holder, pods = self.lease()[0], self._items(self._pods(self.namespace), labelSelector=CONTROLLER_PODS)
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/rescheduler"
        names_of = {pod["metadata"][key] for pod in pods for key in ("name", "uid")}
        known = holder in names_of or holder.rpartition("_")[0] in names_of
        return bool(holder) and not known and (bool(pods) or self._read(path) is None)

    # What it holds

    def gated_pods(self) -> list[Removal]:
        """Pods that wait at a gate of ours; placeholders go with their rooms."""
        found = self._items(self._pods(), fieldSelector="status.phase=Pending")
        others = (pod for pod in found if pod["metadata"]["namespace"] != self.namespace)
        held = (pod for pod in others if any(gate["name"] in _GATES for gate in _gates(pod)))
        return [
            Removal(
                what=_title("Pod", pod),
                how="its gate is taken off",
                act=partial(self._take_gate_off, pod),
            )
            for pod in held
        ]

    def rooms(self, give_up: Callable[[], bool]) -> list[Removal]:
        """PodMigrations, windows, head-rooms, Reservations, their placeholders and probes, and replacements that no ReplicaSet has adopted.

        ``give_up``: True once a kubelet has had its time to end a placeholder.
        """
        ours = [*self._placeholders(), *self._unadopted()]
        return [
            *self._all_of(Kind.POD_MIGRATION),
            *self._all_of(Kind.RESERVATION_WINDOW),
            *self._all_of(Kind.HEAD_ROOM),
            *self._all_of(Kind.RESERVATION),
            *self._koordinators(),
            *(self._deletion(Kind.POD, pod, grace_s=0 if give_up() else 1) for pod in ours),
        ]

    def notes(self) -> list[Removal]:
        """What pods that took rooms, or were started first, keep of it."""
        found = ((pod, _notes(pod)) for pod in self._items(self._pods()))
        how = "the note of its room is taken off"
        return [self._change(Kind.POD, pod, {"metadata": patch}, how) for pod, patch in found if patch]

    def nodes(self) -> list[Removal]:
        """Cordons of nodes that were emptied, taints of a hand-over, hints for where not to go back to."""
        return [removal for node in self._all(Kind.NODE) for removal in self._node(node)]

    def objects(self, manifests: Sequence[Manifest]) -> list[Removal]:
        """Those of the manifests that exist."""
        found = ((path, self._read(path)) for path in dict.fromkeys(map(path_of, manifests)))
        return [
            Removal(
                what=_title(obj["kind"], obj),
                how="is deleted",
                act=partial(self.api.delete, path, uid=obj["metadata"]["uid"], propagation="Background"),
            )
            for path, obj in found
            if obj is not None
        ]

    def own_namespace(self, manifests: Sequence[Manifest]) -> list[Removal]:
        """The namespace, if the manifests made it: one that belongs to somebody else stays."""
        (namespace,) = (path_of(obj) for obj in manifests if obj["kind"] == "Namespace")
        found = self._read(namespace)
        label = ((found or {}).get("metadata") or {}).get("labels") or {}
        if label.get("app.kubernetes.io/name") != "rescheduler":
            return []
        return self.objects([obj for obj in manifests if obj["kind"] == "Namespace"])

    # Parts

    def _planning(self) -> Iterator[Removal]:
        path = CONFIG_MAPS.object_path(self.namespace, names.CONFIG_MAP)
        text = ((self._read(path) or {}).get("data") or {}).get(names.CONFIG_KEY)
        try:
            document = yaml.load(text or "", Loader=yaml.CSafeLoader)
        except yaml.YAMLError:
            return  # the controller does not plan by it either
        if isinstance(document, dict) and document.get("policies"):
            quiet = msgspec.json.encode({**document, "policies": []}).decode()
            yield Removal(
                what=f"ConfigMap {self.namespace}/{names.CONFIG_MAP}",
                how="its policies are taken out, so that no move is planned",
                act=partial(self.api.merge_patch, path, {"data": {names.CONFIG_KEY: quiet}}),
            )

    def _unfinished(self) -> Iterator[Json]:
        moves = self._all(Kind.POD_MIGRATION)
        return (move for move in moves if _status(move).get("phase") not in _OVER)

    def _move(self, move: Json) -> Removal:
        title = _title("PodMigration", move)
        if _status(move).get("evictionRequestedAt") or _status(move).get("evictedAt"):
            return Removal(what=title, how="evicts its pod: its replacement gets its room first")
        version = move["metadata"]["resourceVersion"]
        deletion = self._deletion(Kind.POD_MIGRATION, move, resource_version=version)
        return Removal(what=title, how="is deleted; its pod was not disturbed", act=deletion.act)

    def _hand_overs(self) -> Iterator[Removal]:
        for room in self._all(Kind.RESERVATION):
            status, once = _status(room), (room.get("spec") or {}).get("allocateOnce", True)
            if once and status.get("phase") == ReservationPhase.AVAILABLE and status.get("currentOwners"):
                yield Removal(what=_title("Reservation", room), how="is handed over to its pod first")

    def _koordinators(self) -> Iterator[Removal]:
        created_by = f"{names.LABEL_CREATED_BY}={names.CREATED_BY}"
        for room in self._all(Kind.KOORDINATOR_RESERVATION, labelSelector=created_by):
            yield self._deletion(Kind.KOORDINATOR_RESERVATION, room)

    def _all_of(self, kind: Kind) -> Iterator[Removal]:
        for obj in self._all(kind):
            if obj["metadata"].get("finalizers"):
                how = "its finalizers, which are none of ours, are taken off"
                yield self._change(kind, obj, {"metadata": {"finalizers": None}}, how)
            yield self._deletion(kind, obj)

    def _node(self, node: Json) -> Iterator[Removal]:
        metadata, spec = node["metadata"], node.get("spec") or {}
        annotations, taints = metadata.get("annotations") or {}, spec.get("taints") or []
        seen = {"resourceVersion": metadata["resourceVersion"]}
        left = [taint for taint in taints if taint.get("key") not in _TAINTS]
        if left != taints:
            gone = next(taint["key"] for taint in taints if taint.get("key") in _TAINTS)
            patch, how = (
                {"metadata": seen, "spec": {"taints": left or None}},
                f"its taint {gone} is taken off",
            )
        elif kept := parse_kept_empty(annotations.get(names.ANNOTATION_KEPT_EMPTY)):
            patch = {"metadata": {**seen, "annotations": {names.ANNOTATION_KEPT_EMPTY: None}}}
            how = "the note that it was kept empty is taken off"
            if kept.hold is Hold.CORDONED:
                patch, how = {**patch, "spec": {"unschedulable": None}}, "is uncordoned: it was kept empty"
        elif names.ANNOTATION_AVOID in annotations:
            patch = {"metadata": {"annotations": {names.ANNOTATION_AVOID: None}}}
            how = "its hints are taken off"
        elif names.LABEL_CONSOLIDATION in (metadata.get("labels") or {}):
            patch = {"metadata": {"labels": {names.LABEL_CONSOLIDATION: None}}}
            how = "the label of a consolidation is taken off; its cordon is that of who asked for it"
        else:
            return
        yield self._change(Kind.NODE, node, patch, how)

    def _change(self, kind: Kind, obj: Json, patch: Json, how: str) -> Removal:
        act = partial(self.api.merge_patch, self._path(kind, obj), patch)
        return Removal(what=_title(kind, obj), how=how, act=act)

    def _deletion(
        self, kind: Kind, obj: Json, *, grace_s: int | None = None, resource_version: str = ""
    ) -> Removal:
        act = partial(
            self.api.delete,
            self._path(kind, obj),
            uid=obj["metadata"]["uid"],
            resource_version=resource_version,
            grace_s=grace_s,
            propagation="Background",
        )
        return Removal(what=_title(RESOURCES[kind].kind or kind, obj), how="is deleted", act=act)

    def _take_gate_off(self, pod: Json) -> None:
        """Another pod that took the name meanwhile is left alone: the API server refuses to change a uid."""
        try:
            self.api.strategic_patch(self._path(Kind.POD, pod), _with_uid(_GATE_OFF, pod))
        except RejectedError as error:
            if not any(cause.field == "metadata.uid" for cause in error.causes):
                raise

    def _placeholders(self) -> list[Json]:
        """Elsewhere the label is somebody else's: it alone makes no placeholder."""
        return self._items(self._pods(self.namespace), labelSelector=names.LABEL_PLACEHOLDER)

    def _unadopted(self) -> list[Json]:
        pods = self._items(self._pods(), labelSelector=names.LABEL_START_FIRST)
        return [pod for pod in pods if not pod["metadata"].get("ownerReferences")]

    def _pods(self, namespace: str = "") -> str:
        resource = RESOURCES[Kind.POD]
        return resource.object_path(namespace, "") if namespace else resource.collection_path

    def _path(self, kind: Kind, obj: Json) -> str:
        metadata = obj["metadata"]
        return RESOURCES[kind].object_path(metadata.get("namespace", ""), metadata["name"])

    def _all(self, kind: Kind, **query: str) -> list[Json]:
        return self._items(RESOURCES[kind].collection_path, **query)

    def _items(self, path: str, **query: str) -> list[Json]:
        try:
            return [item for page in self.api.list(path, query) for item in _decoded(page).get("items") or ()]
        except NotServedError:
            if not proves_absent(self.api, resource_of(path)):
                raise
            return []

    def _read(self, path: str) -> Json | None:
        try:
            return _decoded(self.api.get(path))
        except NotFoundError:
            return None
        except NotServedError:
            if not proves_absent(self.api, resource_of(path)):
                raise
            return None


def _decoded(body: bytes) -> Json:
    return read_answer(body, dict[str, Any])


def _title(kind: str, obj: Json) -> str:
    metadata = obj["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{kind} {namespace}{metadata['name']}"


def _status(obj: Json) -> Mapping[str, Any]:
    return obj.get("status") or {}


def _notes(pod: Json) -> Json:
    """The patch of its metadata that takes them off; {}: it has none."""
    metadata = pod["metadata"]
    had = {
        field: dict.fromkeys(key for key in keys if key in (metadata.get(field) or {}))
        for field, keys in _NOTES.items()
    }
    return {field: keys for field, keys in had.items() if keys}


def _gates(pod: Json) -> Sequence[Mapping[str, str]]:
    return (pod.get("spec") or {}).get("schedulingGates") or ()


def _with_uid(patch: Mapping[str, Any], obj: Json) -> Json:
    return {**patch, "metadata": {**patch["metadata"], "uid": obj["metadata"]["uid"]}}
