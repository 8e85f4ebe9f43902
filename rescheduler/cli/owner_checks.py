"""Whether owners of a Reservation, ReservationWindow or HeadRoom can match a pod, before the object is created.

What can never match is refused. What does not exist now may come later, so that is a warning only. Reading only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.output import warn
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import kinds_served
from rescheduler.kube.errors import ApiError, NotFoundError
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.suggestions import did_you_mean

Json = Mapping[str, Any]

NODE_BOUND: Final = {
    "DaemonSet": "each pod of a DaemonSet has a node of its own, so it uses no Reservation",
    "Node": "static pods are bound to their node before they exist, so they use no Reservation",
}
_READ_BY_NAME: Final = {
    kind.value: RESOURCES[kind]
    for kind in (Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.STATEFUL_SET, Kind.JOB, Kind.REPLICATION_CONTROLLER)
}


def check_owners(api: KubeApi, bodies: Sequence[Json]) -> None:
    """Refuses owners that match no pod ever, and warns about what does not exist now.

    Raises:
        CommandError: the kind of a controller has no pods that could use a Reservation, or is not served.
        ApiError, TransportError: the API server does not say what it serves.
    """
    told: set[str] = set()
    for body in bodies:
        for owner in (body.get("spec") or {}).get("owners") or ():
            for warning in _warnings(api, owner):
                if warning not in told:
                    warn(warning)
                told.add(warning)


def _warnings(api: KubeApi, owner: Json) -> Iterator[str]:
    controller = owner.get("controller") or {}
    kind = controller.get("kind") or ""
    if kind in NODE_BOUND:
        raise CommandError(f"owner {_name(controller)}: {NODE_BOUND[kind]}", EXIT_USAGE)
    if kind and kind not in _READ_BY_NAME and kind not in (served := kinds_served(api)):
        known = served | set(_READ_BY_NAME)
        raise CommandError(
            f"owner {_name(controller)}: this cluster serves no kind {kind}{did_you_mean(kind, known)}",
            EXIT_USAGE,
        )
    namespaces = {controller.get("namespace"), (owner.get("object") or {}).get("namespace")}
    missing = [name for name in sorted(filter(None, namespaces)) if _lacks(api, f"/api/v1/namespaces/{name}")]
    yield from (f"namespace {name} does not exist now, so no pod matches yet" for name in missing)
    name, namespace = controller.get("name"), controller.get("namespace")
    if kind in _READ_BY_NAME and name and namespace and namespace not in missing:
        path = _READ_BY_NAME[kind].object_path(namespace, name)
        if _lacks(api, path):
            yield f"{kind.lower()}/{name} does not exist in namespace {namespace} now, so no pod matches yet"


def _lacks(api: KubeApi, path: str) -> bool:
    """True if the API server says so. Who may not read it gets no warning."""
    try:
        api.get(path)
    except NotFoundError:
        return True
    except ApiError:
        return False
    return False


def _name(controller: Json) -> str:
    return f"{str(controller.get('kind') or 'controller').lower()}/{controller.get('name') or controller.get('uid') or '?'}"
