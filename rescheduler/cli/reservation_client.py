"""Client for Reservations, used by ``reserve`` and ``scale``: create in groups, list, wait, release."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from tenacity import stop_before_delay

from rescheduler.cli.by_name import chosen
from rescheduler.cli.clients import NamedCluster, installed, select, why_left, why_refused
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import AlreadyExistsError, ApiError, ConflictError, ForbiddenError, NotFoundError
from rescheduler.kube.retry import Retry
from rescheduler.kube.transport import TransportError, UnreachableError
from rescheduler.model.decode import Decoder
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.decode.wire_types import ObjectWire
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY, LABEL_GROUP
from rescheduler.model.reservation import Reservation
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.placeholder import slug

COLLECTION: Final = RESOURCES[Kind.RESERVATION].collection_path
API_TIMEOUT_S: Final = 10.0
"""An API server that does not answer a command about Reservations is reported after this time."""
MOST_AT_ONCE: Final = 1000
_AT_ONCE: Final = 32
_LEAST_S: Final = 1.0
_FEW: Final = 16

Json = dict[str, Any]


def stem_of(base: str, group: str) -> str:
    """The name of a Reservation for ``base``, in which nobody else's has the random word ``group``."""
    return f"{slug(base, 'room')}-{group}"


def room_template(pods: bytes, namespace: str, node: str = "") -> bytes:
    """The template of a Reservation for such pods. ``pods``: PodTemplateSpec as JSON."""
    template = msgspec.json.decode(pods, type=dict[str, Any])
    metadata = {**(template.get("metadata") or {}), "namespace": namespace}
    metadata.pop("creationTimestamp", None)
    template = {**template, "metadata": metadata}
    if node:
        template["spec"] = {**template["spec"], "nodeName": node}
    return msgspec.json.encode(template)


def manifests(room: Reservation, count: int, group: str) -> list[Json]:
    """``count`` of this Reservation, ready to be created, sorted by name: of several each has its number behind its name.

    ``group``: a random word, the value of the label of all of them. Raises CommandError: too many.
    """
    if count > MOST_AT_ONCE:
        raise CommandError(f"{count:,} Reservations: at most {MOST_AT_ONCE:,} at once", EXIT_USAGE)
    width = len(str(count))
    names = [room.name] if count == 1 else [f"{room.name}-{i:0{width}}" for i in range(1, count + 1)]
    labels = LabelSet({LABEL_CREATED_BY: CREATED_BY, LABEL_GROUP: group})
    return [manifest(msgspec.structs.replace(room, name=name, labels=labels)) for name in names]


@dataclass(slots=True)
class ReservationClient:
    """Client for the Reservations of an API server. Methods raise ApiError and TransportError unless documented."""

    api: KubeApi
    release_timeout_s: float = 30.0
    """Limit for one ``release``, however many Reservations it deletes."""

    def create(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Create all of them, or none: on an error those that were created are released, and a note lists the others."""
        made: dict[str, str] = {}
        unsure: dict[str, str] = {}
        group = ""
        try:
            for body in bodies:
                name, group = str(body["metadata"]["name"]), group_of(body)
                # If the response is lost, the Reservation may exist nevertheless. Only this command makes names with its group.
                if group and group in name:
                    made[name] = ""
                elif group:
                    unsure[name] = group
                made[name] = self._created(name, body, group)
        except BaseException as error:
            uids, left = self._found({name: word for name, word in unsure.items() if name not in made})
            left |= self.release(made | uids)
            if isinstance(
                error, ForbiddenError
            ):  # the last one was refused; who may not create may not delete either
                left = {name: why for name, why in left.items() if made.get(name)}
            if left:
                error.add_note(release_summary(left, group))
            raise

    def _created(self, name: str, body: Mapping[str, Any], group: str) -> str:
        """The uid of the new Reservation. Raises AlreadyExistsError if another one has the name."""
        try:
            with installed("reservations"):
                return _uid(self.api.create(COLLECTION, body, strict=True))
        except AlreadyExistsError:
            # After a lost response the request is retried: one of this command's group is the one that it created.
            mine = {room.name: room.uid for room in self.group(group)} if group else {}
            if name not in mine:
                raise
            return mine[name]

    def _found(self, unsure: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Which of these exist, by name with uid, and why that is not known of the others; ``unsure``: group by name."""
        if not unsure:
            return {}, {}
        try:
            rooms = [room for word in set(unsure.values()) for room in self.group(word)]
        except CommandError:  # the kind is not served, so there are none
            return {}, {}
        except (ApiError, TransportError) as error:
            return {}, dict.fromkeys(unsure, why_refused(error))
        return {room.name: room.uid for room in rooms if room.name in unsure}, {}

    def create_dry_run(self, body: Mapping[str, Any]) -> bytes:
        """The object that the server would store."""
        with installed("reservations"):
            return self.api.create(COLLECTION, body, dry_run=True, strict=True)

    def group(self, group: str) -> tuple[Reservation, ...]:
        """The Reservations of a group, by name."""
        return self.select(f"{LABEL_GROUP}={group}")

    def select(self, selector: str = "") -> tuple[Reservation, ...]:
        """Reservations by a label query, sorted by name, without damaged ones."""
        return tuple(select(self.api, Kind.RESERVATION, Reservation, label=selector))

    def named(self, names: Sequence[str], selector: str = "") -> list[Reservation]:
        """Those of these names, or all that the query selects. Raises CommandError: one does not exist."""
        found = {room.name: room for room in self.select(selector)}
        return chosen(found, sorted(names) or sorted(found), "Reservation")

    def again(self, names: Collection[str], group: str = "") -> tuple[Reservation, ...]:
        """Those of these names that are there, as they are now; ``group``: that of all of them, if they have one.

        A cluster may have thousands of others, so few names without a group are asked for one by one.
        """
        if group or len(names) > _FEW:
            return tuple(
                room for room in self.select(f"{LABEL_GROUP}={group}" if group else "") if room.name in names
            )
        decoder = Decoder()
        read = (
            decoder.attempt(Kind.RESERVATION, raw) for raw in map(self.raw, sorted(names)) if raw is not None
        )
        return tuple(room for room in read if isinstance(room, Reservation))

    def raw(self, name: str) -> bytes | None:
        """One Reservation as JSON; None if it does not exist any more."""
        try:
            return self.api.get(RESOURCES[Kind.RESERVATION].object_path("", name))
        except NotFoundError:
            return None

    def release(self, uids: Mapping[str, str]) -> dict[str, str]:
        """Delete Reservations in parallel, within one time limit; returns the reason for each that may be left.

        ``uids``: uid by name; an empty uid for a name that only this command can have created. Never raises.
        """
        ends_s = time.monotonic() + self.release_timeout_s

        def remove(name: str) -> str:
            left_s = max(ends_s - time.monotonic(), _LEAST_S)
            retry = Retry(stop=stop_before_delay(left_s), gives_up=(UnreachableError,))
            api = KubeApi(self.api.transport, retry, timeout_s=left_s)
            path = RESOURCES[Kind.RESERVATION].object_path("", name)
            with contextlib.suppress(ConflictError):  # another object has this name now
                api.delete(path, uid=uids[name], own_name=not uids[name])
            return ""

        return why_left(uids, remove, _AT_ONCE)


def release_summary(left: Mapping[str, str], group: str = "") -> str:
    """The message after a release: ``left`` could not be released."""
    if not left:
        return "Everything was released."
    whys = ", ".join(sorted(set(left.values())))
    chosen = f"-l {LABEL_GROUP}={group}" if group else " ".join(left)
    return (
        f"Not released ({whys}): {', '.join(left)}. Those that exist hold room until they expire; "
        f"to release them: rescheduler reserve release {chosen}"
    )


def reservation_client(cluster: NamedCluster) -> ReservationClient:
    """A client for a command. Raises KubeconfigError."""
    return ReservationClient(cluster.api(API_TIMEOUT_S), API_TIMEOUT_S)


def _uid(body: bytes) -> str:
    meta = read_answer(body, ObjectWire).metadata
    return (meta.uid or "") if meta else ""


def group_of(body: Mapping[str, Any]) -> str:
    """The group that a manifest of a Reservation names; "": none."""
    return str(body["metadata"].get("labels", {}).get(LABEL_GROUP, ""))
