"""Since when the gate is known to be in force for the pods of a controller: one proof serves all its moves. Pure.

A proof holds for as long as the key that it relied on is stored without a break: it is forgotten with the key, as soon as the
key is wanted no more (the call that removes it may be sent at any moment), with doubt about what is stored, and before keys
end. So what is remembered here is in force on the API server that answered; for the others, if there may be some,
``gate_settle_s`` is waited for, once, from the first proof in a row. All of it may be lost: then it is proven again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.model.controller_key import controller_keys
from rescheduler.model.records import ObjectKey, OwnerRef

FRESH_S: Final = 5.0
"""How long a proof is relied on without another one: what others do to the keys or the policy is seen by then."""
_MACHINES: Final = "gate proof"


class GateAnswers(NamedTuple):
    """What is known of the gate of one controller's pods."""

    stored: bool = False
    """A key for them is stored: a proof may succeed."""
    since_s: float = 0.0
    """Since when it is known to be in force without a break; 0.0: it is not."""
    failed_at_s: float = 0.0
    """When it was found not to be in force; 0.0: the last proof did not find that."""
    single: bool = False
    """It was proven on the only API server."""
    problem: str = ""
    """Why no proof succeeds, as far as an API server said so."""


class _Row(NamedTuple):
    """Proofs in a row: nothing came between them."""

    since_s: float
    """When the first answer came."""
    asked_s: float
    """When the last question was sent."""
    single: bool
    """The last one was answered by the only API server."""


_Pods = tuple[str, str]
"""Namespace and uid of the controller."""


def proof_machine(owner: OwnerRef, namespace: str) -> ObjectKey:
    """Under which machine the proof for the pods of that controller is sent, one at a time."""
    return ObjectKey(_MACHINES, f"{namespace}/{owner.uid}")


@dataclass(slots=True)
class GateProofs:
    """What was proven. Used by the core thread only. ``follow`` in each round, before and after keys are written."""

    _stored: Mapping[str, str] = field(default_factory=dict)
    _wanted: Mapping[str, str] = field(default_factory=dict)
    _rows: dict[_Pods, _Row] = field(default_factory=dict)
    _asked: dict[_Pods, float] = field(default_factory=dict)
    """Proofs under way: when they were sent, and that the key has been stored since then."""
    _failed: dict[_Pods, float] = field(default_factory=dict)
    _tried: set[_Pods] = field(default_factory=set)
    """Pods whose gate is wanted and was asked about."""
    _refused: dict[_Pods, str] = field(default_factory=dict)
    """What the API server said last, of those whose pod it refused in the dry run."""
    problem: str = ""
    """Why the keys cannot be stored now; "": they are, or were not written since they last were."""

    def follow(self, stored: Mapping[str, str] | None, wanted: Mapping[str, str], *, ends: bool) -> None:
        """``stored``: the keys; None: not known. ``wanted``: those that should be stored. ``ends``: they end too soon."""
        self._stored, self._wanted = ({} if stored is None or ends else stored), wanted
        for pods in [pods for pods in self._tried if not self._on(pods)]:
            self._rows.pop(pods, None)
            self._asked.pop(pods, None)
            if not any(key in wanted for key in controller_keys(*pods)):
                self._failed.pop(pods, None)
                self._refused.pop(pods, None)
                self._tried.discard(pods)

    def of(self, owner: OwnerRef, namespace: str, now_s: float) -> GateAnswers:
        """What is known of the pods of that controller."""
        pods = namespace, owner.uid
        row = self._rows.get(pods)
        fresh = row is not None and now_s <= row.asked_s + FRESH_S
        since_s, single = (row.since_s, row.single) if row is not None and fresh else (0.0, False)
        problem = f"ConfigMap gate-keys cannot be written: {self.problem}" if self.problem else ""
        if not problem and (refused := self._refused.get(pods)):
            problem = f"the API server refuses the pod of the dry run: {refused}"
        return GateAnswers(self._on(pods), since_s, self._failed.get(pods, 0.0), single, problem)

    def asks(self, owner: OwnerRef, namespace: str, now_s: float) -> None:
        """A proof is sent."""
        pods = namespace, owner.uid
        self._tried.add(pods)
        if self._on(pods):
            self._asked[pods] = now_s

    def answered(
        self, owner: OwnerRef, namespace: str, now_s: float, *, proven: bool, single: bool = False
    ) -> None:
        """A proof was answered. ``single``: by the only API server."""
        pods = namespace, owner.uid
        asked_s = self._asked.pop(pods, None)
        self._refused.pop(pods, None)
        if not proven:
            self._rows.pop(pods, None)
            self._failed[pods] = now_s
            return
        self._failed.pop(pods, None)
        if asked_s is not None:
            row = self._rows.get(pods)
            self._rows[pods] = _Row(row.since_s if row is not None else now_s, asked_s, single)

    def refused(self, owner: OwnerRef, namespace: str, message: str) -> None:
        """The API server refused the pod of the dry run. That shows nothing of the gate: one that starts refuses whatever it is asked."""
        pods = namespace, owner.uid
        self._asked.pop(pods, None)
        self._refused[pods] = message

    def machines(self) -> Iterable[ObjectKey]:
        """Under which machines the proofs of keys that are wanted are sent."""
        return (ObjectKey(_MACHINES, f"{namespace}/{uid}") for namespace, uid in self._tried)

    def _on(self, pods: _Pods) -> bool:
        return any(key in self._stored and key in self._wanted for key in controller_keys(*pods))
