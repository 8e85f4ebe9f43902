"""The volumes behind the claims of a pod, or of a pod that does not exist yet. Look-ups only."""

from __future__ import annotations

from typing import NamedTuple

from rescheduler.model.records import ObjectKey, PodSpec, VolumeKind
from rescheduler.model.selectors import NodeSelector
from rescheduler.model.snapshot import Snapshot


class Volumes(NamedTuple):
    """``affinities``: node affinity of the volumes that claims are bound to. ``unbound``: claims without a volume."""

    affinities: tuple[NodeSelector, ...] = ()
    unbound: tuple[str, ...] = ()


def volumes_of(snapshot: Snapshot, namespace: str, pod: str, spec: PodSpec) -> Volumes:
    """For the claims of ``spec``. ``pod``: its name, after which claims of ephemeral volumes are called; "": none yet."""
    affinities: list[NodeSelector] = []
    unbound: list[str] = []
    for volume in spec.volumes:
        if volume.kind is VolumeKind.CLAIM:
            name = volume.source
        elif volume.kind is VolumeKind.EPHEMERAL and pod:
            name = f"{pod}-{volume.source}"
        else:
            continue
        claim = snapshot.claims.get(ObjectKey(namespace, name))
        bound = snapshot.volumes.get(claim.volume) if claim is not None else None
        if bound is None:
            unbound.append(name)
        elif bound.node_affinity is not None:
            affinities.append(bound.node_affinity)
    return Volumes(tuple(affinities), tuple(unbound))
