"""An upgrade in the middle: what is stored turns into what an older version had written, and another process starts.

The marks that it did not write yet are gone from all objects at once: the uids by which moves and Reservations find each other,
and what is recorded of moves. In one of five histories, at one to three moments. All draws come from a stream of their own, so
that histories without upgrades stay as they were. Checked in all histories: no move disowns the room that was made for it, and no room is
given back because of a move that is said not to exist, and does.
"""

from __future__ import annotations

import copy
from typing import Final

from harness.histories.theme import Stage, Theme
from harness.histories.user_requests import MOVE
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import Obj, annotations_of, condition, key, status
from rescheduler.model.names import (
    ANNOTATION_MIGRATION,
    ANNOTATION_MIGRATION_UID,
    DEFAULT_NAMESPACE,
    GROUP,
    HISTORY_CONFIG_MAP,
)

_MOST: Final = 3
_DISOWNED: Final = "was not made for this move by the controller"
_RESERVATIONS: Final = f"reservations.{GROUP}"
_MIGRATIONS: Final = f"podmigrations.{GROUP}"


class Upgrades(Theme):
    """Turns what is stored into what an older version had written."""

    stream, share = "upgrades", 0.2

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._store = stage.cluster.server.store
        self._api.subscribe(self._check)

    def write_script(self) -> None:
        """Draw when there are upgrades."""
        for _ in range(self._rng.randint(1, _MOST)):
            self._at_a_milestone("upgraded in the middle", self._upgrade, later_s=(0.001, 0.1, 0.5))

    def _upgrade(self) -> None:
        with self._store.lock:
            for obj in self._store.list(_RESERVATIONS):
                self._rewrite(_RESERVATIONS, obj, ("metadata", "annotations"), ANNOTATION_MIGRATION_UID)
            for obj in self._store.list(_MIGRATIONS):
                self._rewrite(_MIGRATIONS, obj, ("status",), "reservationUid")
            for obj in self._store.list("configmaps", DEFAULT_NAMESPACE):
                if obj["metadata"]["name"] == HISTORY_CONFIG_MAP:
                    self._rewrite("configmaps", obj, (), "data")
        self._program.kill()

    def _check(self, change: ObjectChange) -> None:
        obj = change.object
        if (obj["kind"], change.type) == ("PodMigration", "MODIFIED"):
            if _DISOWNED in status(obj).get("message", ""):
                self.faults.append(f"move {key(obj).name} disowns its room: {status(obj)['message']}")
        elif (obj["kind"], change.type) == ("Reservation", "MODIFIED"):
            told = (condition(obj, "Ready") or {}).get("message", "")
            made_for = annotations_of(obj).get(ANNOTATION_MIGRATION, "")
            namespace, _, name = made_for.partition("/")
            if told == f"PodMigration {made_for} does not exist any more" and self._exists(namespace, name):
                self.faults.append(f"room {key(obj).name} is given back, but its move {made_for} exists")

    def _exists(self, namespace: str, name: str) -> bool:
        return self._api.get(MOVE, namespace, name) is not None

    def _rewrite(self, table: str, obj: Obj, path: tuple[str, ...], mark: str) -> None:
        """Store the object without the mark, past admission."""
        new = copy.deepcopy(obj)
        inner = new
        for name in path:
            inner = inner.get(name) or {}
        if mark in inner:
            del inner[mark]
            metadata = new["metadata"]
            self._store.objects.put(table, (metadata.get("namespace", ""), metadata["name"]), new)
