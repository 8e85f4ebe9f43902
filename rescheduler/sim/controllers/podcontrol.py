"""Making and claiming pods, the same way for every workload controller (controller_ref_manager, pod_control)."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from rescheduler.model.selectors import LabelSelector
from rescheduler.sim.controllers.runtime import Context
from rescheduler.sim.controllers.wire import (
    POD,
    GroupKind,
    Obj,
    controller_of,
    controller_ref,
    deleting,
    is_controlled_by,
    meta,
    owners,
    selects,
    uid,
)

_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated names: no vowels, so that no words arise (rand.SafeEncodeString)."""


def template_hash(template: Obj, collisions: int = 0) -> str:
    """A short digest of a pod template, the same on every run."""
    text = json.dumps([template, collisions], sort_keys=True)
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_SAFE[b % len(_SAFE)] for b in digest[:10])


def pod_from_template(owner: Obj, template: Obj, *, name: str = "") -> Obj:
    """A pod as its controller creates it; without ``name`` the server makes one up from the owner's."""
    m = meta(template)
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": meta(owner)["namespace"],
            "labels": dict(m.get("labels") or {}),
            "annotations": dict(m.get("annotations") or {}),
            "ownerReferences": [controller_ref(owner)],
        },
        "spec": copy.deepcopy(template.get("spec") or {}),
    }
    if finalizers := m.get("finalizers"):
        pod["metadata"]["finalizers"] = list(finalizers)
    if name:
        pod["metadata"]["name"] = name
    else:
        pod["metadata"]["generateName"] = f"{meta(owner)['name']}-"
    return pod


def claim(ctx: Context, owner: Obj, chosen: LabelSelector | None, candidates: Iterable[Obj]) -> list[Obj]:
    """Adopt matching orphans, release own objects that match no longer; gives what belongs to ``owner``.

    A terminating owner adopts nothing, and a terminating orphan is not adopted.
    """
    mine: list[Obj] = []
    for obj in candidates:
        if is_controlled_by(obj, owner):
            if selects(chosen, obj):
                mine.append(obj)
            elif not deleting(owner) and not deleting(obj):
                release(ctx, owner, obj)
        elif (
            controller_of(obj) is None and selects(chosen, obj) and not deleting(owner) and not deleting(obj)
        ):
            mine.append(_adopt(ctx, owner, obj))
    return sorted(mine, key=lambda o: str(meta(o)["name"]))


def release(ctx: Context, owner: Obj, obj: Obj) -> None:
    """Take the owner's reference off, so that the object is an orphan."""
    rest = [o for o in owners(obj) if o.get("uid") != uid(owner)]
    ctx.api.patch(obj, {"metadata": {"ownerReferences": rest or None}})


def replicas_of(ctx: Context, kind: GroupKind, owner: Obj) -> list[Obj]:
    """Objects of a kind that this owner controls."""
    return ctx.view.controlled(uid(owner), kind)


def pods_of(ctx: Context, owner: Obj) -> list[Obj]:
    """Pods that this owner controls."""
    return replicas_of(ctx, POD, owner)


def _adopt(ctx: Context, owner: Obj, obj: Obj) -> Obj:
    return ctx.api.patch(obj, {"metadata": {"ownerReferences": [*owners(obj), controller_ref(owner)]}})
