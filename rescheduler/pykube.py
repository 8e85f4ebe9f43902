"""Reservations and PodMigrations as pykube-ng objects, for scripts (extra ``pykube``).

They are ordinary ``APIObject`` classes: ``objects(api)``, ``create``, ``reload``, ``delete`` and ``obj`` work as for any
kind of pykube. Added are constructors that write the spec, properties that read the status, and waits.
The controller (``rescheduler run``) does the work; nothing here decides anything. ``examples/`` has scripts.

    api = pykube.HTTPClient(pykube.KubeConfig.from_env())
    web = pykube.Deployment.objects(api, namespace="shop").get_by_name("web")
    room = Reservation.for_workload(web, "web-peak", ttl="1h")
    room.create()
    print(room.wait_until_available(timeout_s=60).node)
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Self

from pykube.exceptions import HTTPError
from pykube.objects import APIObject, NamespacedAPIObject
from tenacity import RetryError, Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_fixed

from rescheduler.errors import ReschedulerError
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.names import API_VERSION
from rescheduler.model.reservation import ReservationPhase

POLL_S: Final = 0.5
_PASSES: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


class FailedError(ReschedulerError):
    """What was waited for has failed for good. ``reason``: one of docs/troubleshooting.md."""

    def __init__(self, what: str, reason: str, message: str) -> None:
        super().__init__(f"{what} failed: {reason}: {message}")
        self.reason = reason
        self.message = message


class Reservation(APIObject):
    """Capacity that is held on one node for pods that may not exist yet (cluster scoped)."""

    version = API_VERSION
    endpoint = "reservations"
    kind = "Reservation"

    @classmethod
    def for_workload(cls, workload: NamespacedAPIObject, name: str, *, ttl: str = "", node: str = "") -> Self:
        """A Reservation for one more pod of a Deployment, ReplicaSet or StatefulSet; not created yet.

        What is held follows the workload's pod template. Claims that a StatefulSet makes for each of its pods
        are not part of the template. ``ttl`` is a duration such as "2h" ("0s": no end, "": the configured
        default); ``node``: hold it there, and nowhere else.
        """
        template: dict[str, Any] = workload.obj["spec"]["template"]
        if node:
            template = {**template, "spec": {**template["spec"], "nodeName": node}}
        owner = {
            "apiVersion": workload.version,
            "kind": workload.kind,
            "name": workload.name,
            "namespace": workload.namespace,
        }
        spec: dict[str, Any] = {"template": template, "owners": [{"controller": owner}]}
        if ttl:
            spec["ttl"] = ttl
        return cls(
            workload.api,
            {"apiVersion": cls.version, "kind": cls.kind, "metadata": {"name": name}, "spec": spec},
        )

    @property
    def phase(self) -> ReservationPhase:
        """``status.phase``; Pending before the controller has written it."""
        return ReservationPhase(_status(self).get("phase") or ReservationPhase.PENDING)

    @property
    def node(self) -> str:
        """The node that holds it, "" before one was found."""
        return str(_status(self).get("nodeName", ""))

    @property
    def reason(self) -> str:
        """Why it is in its phase: a reason of docs/troubleshooting.md, "" before the controller has written one."""
        return str(self._condition.get("reason", ""))

    @property
    def message(self) -> str:
        """The words that go with ``reason``; for a Pending one those of the scheduler."""
        return str(self._condition.get("message", ""))

    @property
    def pods(self) -> list[str]:
        """NAMESPACE/NAME of the pods that use it now."""
        return [f"{pod['namespace']}/{pod['name']}" for pod in _status(self).get("currentOwners", [])]

    def wait_until_available(self, *, timeout_s: float) -> Self:
        """Waits until its capacity is held on a node; one that pods have used up meanwhile counts too.

        Raises:
            FailedError: it has failed, with its reason.
            TimeoutError: it is still Pending or Waiting, with the reason.
            pykube.exceptions.HTTPError: it cannot be read, for example because it was deleted.
        """
        over = (ReservationPhase.AVAILABLE, ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)
        return self._wait_for(over, timeout_s)

    def wait_until_used(self, *, timeout_s: float) -> Self:
        """Waits until its pod is bound where the capacity was held (phase Succeeded).

        Raises:
            FailedError: it has failed, with its reason.
            TimeoutError: no pod has used it yet.
            pykube.exceptions.HTTPError: it cannot be read, for example because it was deleted.
        """
        over = (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)
        return self._wait_for(over, timeout_s)

    def _wait_for(self, phases: tuple[ReservationPhase, ...], timeout_s: float) -> Self:
        _wait(self, lambda: self.phase in phases, timeout_s)
        if self.phase is ReservationPhase.FAILED:
            raise FailedError(f"Reservation {self.name}", self.reason, self.message)
        return self

    @property
    def _condition(self) -> dict[str, Any]:
        conditions = {each["type"]: each for each in _status(self).get("conditions", [])}
        first, second = (
            ("Scheduled", "Ready") if self.phase is ReservationPhase.PENDING else ("Ready", "Scheduled")
        )
        return conditions.get(first) or conditions.get(second) or {}


class PodMigration(NamespacedAPIObject):
    """One move of one pod: room is reserved first, then the pod is evicted, and its replacement lands there."""

    version = API_VERSION
    endpoint = "podmigrations"
    kind = "PodMigration"

    @classmethod
    def of_pod(
        cls,
        pod: NamespacedAPIObject,
        *,
        target: str = "",
        reservation: str = "",
        mode: MoveMode = MoveMode.AUTO,
        ttl: str = "",
        reason: str = "",
    ) -> Self:
        """A move of exactly this pod (its uid is named); not created yet. The API server makes its name.

        ``target``: the node to move to; "" leaves the choice to the controller. ``reservation``: an existing
        Reservation to use. ``ttl``: the time limit of the move, such as "5m". ``reason``: for people.
        """
        spec: dict[str, Any] = {
            "podRef": {"name": pod.name, "uid": pod.metadata["uid"]},
            "mode": mode.value,
        }
        if target:
            spec["target"] = {"nodeName": target}
        if reservation:
            spec["reservationRef"] = {"name": reservation}
        if ttl:
            spec["ttl"] = ttl
        if reason:
            spec["reason"] = reason
        metadata = {"generateName": f"{pod.name}-", "namespace": pod.namespace}
        return cls(pod.api, {"apiVersion": cls.version, "kind": cls.kind, "metadata": metadata, "spec": spec})

    @property
    def phase(self) -> MigrationPhase:
        """``status.phase``; Pending before the controller has written it."""
        return MigrationPhase(_status(self).get("phase") or MigrationPhase.PENDING)

    @property
    def source(self) -> str:
        """The node that the pod is moved away from."""
        return str(_status(self).get("sourceNode", ""))

    @property
    def node(self) -> str:
        """The node where room is held, and where the replacement landed; "" before one was chosen."""
        return str(_status(self).get("nodeName", ""))

    @property
    def replacement(self) -> str:
        """Name of the pod that took the old one's place, "" before it exists."""
        return str((_status(self).get("replacement") or {}).get("name", ""))

    @property
    def reason(self) -> str:
        """What it waits for, or how it ended: a reason of docs/troubleshooting.md."""
        return str(_status(self).get("reason", ""))

    @property
    def message(self) -> str:
        """The words that go with ``reason``."""
        return str(_status(self).get("message", ""))

    def wait_until_landed(self, *, timeout_s: float) -> Self:
        """Waits until the replacement is bound on the node that was reserved for it.

        Raises:
            FailedError: the move has failed, with its reason.
            TimeoutError: the move is still under way, with what it waits for.
            pykube.exceptions.HTTPError: it cannot be read, for example because it was deleted.
        """
        _wait(self, lambda: self.phase in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED), timeout_s)
        if self.phase is MigrationPhase.FAILED:
            raise FailedError(f"move {self.namespace}/{self.name}", self.reason, self.message)
        return self


def _status(thing: APIObject) -> dict[str, Any]:
    status: dict[str, Any] = thing.obj.get("status") or {}
    return status


def _wait(thing: Reservation | PodMigration, over: Callable[[], bool], timeout_s: float) -> None:
    """Reads the object again until ``over``; a server that does not answer for a while is asked again."""

    def look() -> bool:
        thing.reload()
        return over()

    retrying = Retrying(
        retry=retry_if_result(lambda is_over: not is_over) | retry_if_exception(_passes_by_itself),
        stop=stop_after_delay(timeout_s),
        wait=wait_fixed(POLL_S),
    )
    try:
        retrying(look)
    except RetryError as error:
        message = f"{thing.kind} {thing.name} is {thing.phase} after {timeout_s:g} s: {thing.reason}: {thing.message}"
        raise TimeoutError(message) from error


def _passes_by_itself(error: BaseException) -> bool:
    """No connection, or an answer of an overloaded or starting server. Other answers are for the caller."""
    if isinstance(error, HTTPError):
        return error.code in _PASSES
    return isinstance(error, OSError)  # every exception of requests is one
