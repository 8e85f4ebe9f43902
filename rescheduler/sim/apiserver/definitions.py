"""CustomResourceDefinitions: each stored one becomes resources of the registry."""

from __future__ import annotations

from rescheduler.sim.apiserver.store import Store


class Definitions:
    """Follows the stored definitions."""

    def __init__(self, store: Store) -> None:
        self._store = store
