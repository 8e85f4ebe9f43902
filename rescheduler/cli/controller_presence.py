"""Whether a controller is at work, as its Lease says. Read by commands that ask it for something, and by ``status``.

The times in a Lease are by the clock of its holder. So a Lease that looks expired is watched for a moment before it counts
as left behind: a holder that lives renews it. Where none runs, its Deployment says why.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from rescheduler.cli.clients import listed
from rescheduler.cli.controller_deployment import CONTROLLER_PODS, images_of_leader, why_none_runs
from rescheduler.cli.errors import CommandError
from rescheduler.cli.following import follow
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.election import Lease, LeaseSpec, LeaseTiming
from rescheduler.kube.errors import ForbiddenError, NotFoundError
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_CONFIGURATION, CONFIG_KEY, CONFIG_MAP, LEASE_NAME
from rescheduler.model.records import Pod
from rescheduler.model.times import format_seconds, parse_timestamp
from rescheduler.reports.status_document import ControllerStatus, Presence

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/" + LEASE_NAME
_RENEWED_WITHIN_S: Final = 2.5 * LeaseTiming().retry_s


def leader(api: KubeApi, namespace: str) -> ControllerStatus:
    """Who leads the controllers whose Lease is in ``namespace``. Raises ApiError, TransportError."""
    try:
        found = _read(api, namespace)
    except ForbiddenError as error:
        return ControllerStatus(message=f"the Lease may not be read: {error.message}")
    if found is None:
        return _told(_without_lease(api, namespace), api, namespace)

    def renewed(again: Lease | None, _: float) -> bool:
        return again is not None and again.spec.renew_time != found.spec.renew_time

    if found.spec.holder_identity and not _fresh(found.spec):
        ends_s = time.monotonic() + _RENEWED_WITHIN_S
        again = follow(lambda: _read(api, namespace), renewed, ends_s=ends_s)
        if again is not None and renewed(again, 0.0):
            return _status(again, Presence.LEADING)
    if found.spec.holder_identity and _fresh(found.spec):
        status = _status(found, Presence.LEADING)
        return msgspec.structs.replace(status, images=images_of_leader(api, namespace, status.holder))
    return _told(_status(found, Presence.STOPPED), api, namespace)


def _told(found: ControllerStatus, api: KubeApi, namespace: str) -> ControllerStatus:
    """With what its Deployment tells, if none runs."""
    if found.runs:
        return found
    message, remedy = why_none_runs(api, namespace)
    return msgspec.structs.replace(found, message=message, remedy=remedy)


def need_controller(found: ControllerStatus, namespace: str, *, elects: bool) -> None:
    """Refuse to ask for something that nobody would do. ``elects``: leader election is on. Raises CommandError."""
    if not elects:
        return
    told = f"; {found.message}" if found.message else ""
    match found.presence:
        case Presence.ABSENT:
            raise CommandError(
                f"no controller is running: there is no Lease {namespace}/{LEASE_NAME}{told} (start it: {found.remedy}; "
                "if it runs in another namespace: --controller-namespace; if it was started with a file that switches leader "
                "election off: --config with that file)"
            )
        case Presence.STOPPED:
            last = f"; {found.holder} led last" if found.holder else ""
            raise CommandError(
                f"no controller is running: nobody renews the Lease {namespace}/{LEASE_NAME}{last}{told} (start it: {found.remedy})"
            )
        case _:
            return


def _read(api: KubeApi, namespace: str) -> Lease | None:
    try:
        return read_answer(api.get(_LEASES.format(namespace=namespace)), Lease)
    except NotFoundError:
        return None


def _status(lease: Lease, presence: Presence) -> ControllerStatus:
    found = lease.spec
    since_s, renewed_s = _seconds(found.acquire_time), _seconds(found.renew_time)
    return ControllerStatus(
        presence=presence,
        holder=found.holder_identity or "",
        configuration=(lease.metadata.annotations or {}).get(ANNOTATION_CONFIGURATION, ""),
        leads_since=format_seconds(since_s) if since_s else "",
        renewed=format_seconds(renewed_s) if renewed_s else "",
    )


def _fresh(found: LeaseSpec) -> bool:
    return time.time() < _seconds(found.renew_time) + LeaseTiming().duration_s


def _without_lease(api: KubeApi, namespace: str) -> ControllerStatus:
    if _has_pods(api, namespace):
        return ControllerStatus(message="there is no Lease, but pods of a controller run")
    try:
        text = read_config_map(api, namespace, CONFIG_MAP).document(CONFIG_KEY)
        election = text is None or parse_configuration(text, CONFIG_MAP).leader_election.enabled
    except ForbiddenError as error:
        return ControllerStatus(
            message=f"there is no Lease, the ConfigMap may not be read: {error.message}",
        )
    except ConfigurationError:
        election = True
    if election:
        return ControllerStatus(presence=Presence.ABSENT)
    return ControllerStatus(message="leader election is switched off")


def _has_pods(api: KubeApi, namespace: str) -> bool:
    """True if a controller runs as a pod there: it was told not to elect a leader, by a file that nobody else sees."""
    query = {"labelSelector": CONTROLLER_PODS, "fieldSelector": "status.phase=Running"}
    try:
        return bool(listed(api, Kind.POD, Pod, namespace=namespace, query=query))
    except ForbiddenError:
        return False


def _seconds(text: str | None) -> float:
    try:
        return parse_timestamp(text) if text else 0.0
    except ValueError:
        return 0.0
