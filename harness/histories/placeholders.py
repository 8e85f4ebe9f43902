"""What admission of others makes of placeholders, and finalizers that appear on them: own module, own random stream.

Policies that spoil new placeholders, or change nothing that they promise, come and go; a placeholder that stands gets a finalizer at any step
of a move. The invariants are those of every history: at each eviction the room is held. What a
finalizer holds up is excused, because the object was hit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from harness.histories import admission
from harness.histories.disturbances import GATE_BINDING, GATE_POLICY, Disturbance
from harness.histories.script import Milestone
from harness.histories.theme import Theme
from kube_sandbox.controllers.unstructured import POD, deleting, labels, uid
from rescheduler.model.names import LABEL_PLACEHOLDER

_MOST: Final = 3
_UNTIL_S: Final = 9.0
_LASTS_S: Final = (2.0, 8.0, 60.0)
_FINALIZER: Final = "example.com/audit"
_MILESTONES: Final = (
    Milestone.WRITE, Milestone.MOVE, Milestone.AVAILABLE, Milestone.INTENT, Milestone.EVICTED,
)  # fmt: skip


class ChangedPlaceholders(Theme):
    """Others spoil placeholders, and hold them up."""

    stream, share = "placeholders", 0.15

    def write_script(self) -> None:
        """Draw what happens, and when."""
        rng, all_of_them = self._rng, self._all
        for name in rng.choices(list(all_of_them), k=rng.randint(1, _MOST)):
            if rng.random() < 0.5:  # noqa: PLR2004 -- half of them at the beginning of a step
                self._script.after(rng.randint(1, 3), rng.choice(_MILESTONES), name, all_of_them[name])
            else:
                self._in(rng.uniform(0.0, _UNTIL_S), name, all_of_them[name])

    def undo(self) -> None:
        """Admission ends, and other programs take their finalizers off."""
        self._admit_as_before()
        for pod in self._api.list(POD):
            if LABEL_PLACEHOLDER in labels(pod) and pod["metadata"].get("finalizers"):
                self._api.patch(pod, {"metadata": {"finalizers": None}})

    @property
    def _all(self) -> Mapping[str, Disturbance]:
        spoiled = {
            f"placeholders: {what}": partial(self._admit, how) for what, how in admission.SPOILED.items()
        }
        harmless = {
            f"placeholders, harmless: {what}": partial(self._admit, how)
            for what, how in admission.HARMLESS.items()
        }
        finalizer = dict.fromkeys(
            ("placeholder gets a finalizer", "placeholder gets a finalizer again"), self._hold
        )
        return {**spoiled, **harmless, **finalizer}

    def _admit(self, expression: str) -> None:
        self._admit_as_before()
        for obj in admission.placeholder_policy(expression):
            self._api.create(obj)
        self._in(self._rng.choice(_LASTS_S), "placeholders as before", self._admit_as_before)

    def _admit_as_before(self) -> None:
        for kind in (GATE_BINDING, GATE_POLICY):
            found = self._api.get(kind, "", admission.OF_PLACEHOLDERS)
            if found is not None:
                self._api.delete(found)

    def _hold(self) -> None:
        found = [p for p in self._api.list(POD) if LABEL_PLACEHOLDER in labels(p) and not deleting(p)]
        if found:
            pod = self._rng.choice(found)
            self._script.hits.add(uid(pod))
            self._api.patch(pod, {"metadata": {"finalizers": [_FINALIZER]}})
