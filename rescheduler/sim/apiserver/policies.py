"""Mutating and validating admission policies with their CEL expressions."""

from __future__ import annotations

from rescheduler.sim.apiserver.admission import Attributes
from rescheduler.sim.apiserver.errors import Json
from rescheduler.sim.apiserver.store import Store


class PolicyEngine:
    """Applies the policies that are stored in the cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def mutate(self, attributes: Attributes, obj: Json) -> Json:
        """``obj`` after all matching policies; the same object if none changed it."""
        del attributes
        return obj

    def validate(self, attributes: Attributes, obj: Json) -> None:
        """Raises ApiError if a validating policy denies."""
