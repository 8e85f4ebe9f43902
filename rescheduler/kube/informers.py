"""The informers of all kinds that a Snapshot is made of: one queue of changes, one answer to "may I decide?".

Nothing may be decided unless ``synced``, ``unknown`` is empty and ``stale_for_s`` is small. A kind that the server
never had counts as empty if it is optional, and is looked for now and then. A kind that was read and is not served now, or
that suddenly is nearly empty, is unknown until a list of it is complete. A kind that may not be read keeps the whole
unsynced: ``problems`` says which, and what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Final

from rescheduler.kube.informer import Events, Informer, SharedDecoder
from rescheduler.kube.reflector import Gaps
from rescheduler.kube.transport import Transport
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind, Resource

UNFINISHED_PODS: Final = "status.phase!=Succeeded"
"""Pods that are over hold nothing; a pod that ends is reported as deleted. Of those that failed ``reflector`` keeps placeholders and the few that a kubelet refused."""

_JOIN_S: Final = 5.0


class Informers:
    """Starts and stops them together. ``events`` is the queue for the one thread that keeps the state."""

    def __init__(
        self,
        transport: Transport,
        decoder: Decoder,
        *,
        resources: Mapping[Kind, Resource] = RESOURCES,
        watch_list: bool = True,
    ) -> None:
        self.events: Events = SimpleQueue()
        shared = SharedDecoder(decoder)
        self._informers = {
            kind: Informer(
                kind,
                resource,
                transport,
                shared,
                self.events,
                field_selector=UNFINISHED_PODS if kind is Kind.POD else "",
                watch_list=watch_list,
            )
            for kind, resource in resources.items()
        }

    def start(self) -> None:
        """Begin to list and watch everything."""
        for informer in self._informers.values():
            informer.start()

    def stop(self) -> None:
        """End all watches and wait a little for their threads."""
        for informer in self._informers.values():
            informer.stop()
        ends_s = time.monotonic() + _JOIN_S
        for informer in self._informers.values():
            informer.join(max(0.0, ends_s - time.monotonic()))

    def of(self, kind: Kind) -> Informer:
        """The informer of one kind."""
        return self._informers[kind]

    def gaps(self, kind: Kind) -> Gaps:
        """What may be missing from, or out of order in, what was told of one kind."""
        return self._informers[kind].gaps

    def all(self) -> tuple[Informer, ...]:
        """All of them, in the order of the resources."""
        return tuple(self._informers.values())

    def synced(self) -> bool:
        """True once the first list of every kind is in the queue. Take what is queued before you decide.

        False again for good if a thread died.
        """
        return all(informer.synced and not informer.died for informer in self._informers.values())

    def stale_for_s(self) -> float:
        """Age of the oldest cache: seconds since the server last proved that it is up to date."""
        return max((informer.stale_for_s() for informer in self._informers.values()), default=0.0)

    def waiting_for(self) -> tuple[Kind, ...]:
        """Kinds whose first list is not complete."""
        return tuple(kind for kind, informer in self._informers.items() if not informer.synced)

    def unknown(self) -> dict[Kind, str]:
        """Kinds of which nothing is known now although they were read before, each with the reason."""
        return {kind: why for kind, informer in self._informers.items() if (why := informer.unknown)}

    def problems(self) -> dict[Kind, str]:
        """What keeps kinds from being up to date, in the words of the server or the network."""
        return {kind: informer.problem for kind, informer in self._informers.items() if informer.problem}

    def dead(self) -> tuple[Kind, ...]:
        """Kinds whose thread ended by a fault of the program: the process should be restarted."""
        return tuple(kind for kind, informer in self._informers.items() if informer.died)
