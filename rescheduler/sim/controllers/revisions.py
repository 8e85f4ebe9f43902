"""ControllerRevisions of StatefulSets: the templates of earlier rollouts, for ordinals below the partition."""

from __future__ import annotations

import copy

from rescheduler.sim.controllers.podcontrol import replicas_of
from rescheduler.sim.controllers.runtime import Context
from rescheduler.sim.controllers.wire import CONTROLLER_REVISION, Obj, controller_ref, key, meta, spec, status


def remember(ctx: Context, owner: Obj, name: str) -> None:
    """Record the owner's present template under the name of its revision; forget the oldest unused ones."""
    known = replicas_of(ctx, CONTROLLER_REVISION, owner)
    if any(key(r).name == name for r in known):
        return
    number = max((int(r.get("revision") or 0) for r in known), default=0) + 1
    template = copy.deepcopy(spec(owner).get("template") or {})
    ctx.api.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "namespace": key(owner).namespace,
                "name": name,
                "labels": dict(meta(template).get("labels") or {}),
                "ownerReferences": [controller_ref(owner)],
            },
            "data": {"spec": {"template": template}},
            "revision": number,
        }
    )
    limit = spec(owner).get("revisionHistoryLimit")
    used = {name, status(owner).get("currentRevision")}
    unused = sorted((r for r in known if key(r).name not in used), key=lambda r: int(r.get("revision") or 0))
    for old in unused[: max(len(unused) - (10 if limit is None else int(limit)), 0)]:
        ctx.api.delete(old)


def template_of(ctx: Context, owner: Obj, name: str) -> Obj | None:
    """The template recorded under a revision's name."""
    found = ctx.view.get(CONTROLLER_REVISION, key(owner).namespace, name)
    if found is None:
        return None
    template: Obj | None = ((found.get("data") or {}).get("spec") or {}).get("template")
    return template
