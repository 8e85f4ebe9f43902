"""The effect of a call: the objects that it changed and the answer of the API server.

The reconciler remembers changed objects as expectations, and answers that no object shows as ``Answers``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.calls.call import Call
from rescheduler.coordination.expectations import Touched
from rescheduler.errors import ReschedulerError
from rescheduler.model.outcomes import CreationAnswer, EvictionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The outcome of one call that was sent."""

    touched: tuple[Touched, ...] = ()
    eviction: EvictionResult | None = None
    request_withdrawn: bool = False
    """No EvictionRequest of ours asks for the pod any more."""
    gate_proven: bool | None = None
    single_api_server: bool = False
    """No other API server could lack the gate that is proven."""
    creation: CreationAnswer | None = None
    """The answer to a dry-run creation."""
    read: Call | None = None
    """That dry-run creation, if its template was read for it."""
    refused: str = ""
    """The message of the API server if it refused, and would refuse the same call again; of a template: what is invalid."""


NO_EFFECT = Effect()


class NotLeaderError(ReschedulerError):
    """Leadership was lost before a call that changes something; that call was not sent."""
