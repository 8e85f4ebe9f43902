"""What admission of others makes of replacements that start first: own module, own random stream.

A policy that spoils new ones comes at a random moment, and goes again. The invariants: at each eviction the replacement is on the node
of its move and asks for no less than the pod that it takes the place of.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from harness.histories import admission
from harness.histories.disturbances import GATE_BINDING, GATE_POLICY
from harness.histories.theme import Theme

_MOST: Final = 2
_UNTIL_S: Final = 6.0
_LASTS_S: Final = (4.0, 15.0, 60.0)


class ChangedSurgePods(Theme):
    """Others spoil replacements that start first."""

    stream, share = "surge pods", 0.1

    def write_script(self) -> None:
        """Draw what happens, and when."""
        rng, ways = self._rng, admission.SPOILED_SURGE_PODS
        for what in rng.choices(list(ways), k=rng.randint(1, _MOST)):
            after_s = rng.uniform(0.0, _UNTIL_S)
            self._in(after_s, f"surge pods: {what}", partial(self._admit, ways[what]))
            self._in(after_s + rng.choice(_LASTS_S), "surge pods as before", self.undo)

    def undo(self) -> None:
        """Admission ends."""
        for kind in (GATE_BINDING, GATE_POLICY):
            found = self._api.get(kind, "", admission.OF_SURGE_PODS)
            if found is not None:
                self._api.delete(found)

    def _admit(self, expression: str) -> None:
        self.undo()
        for obj in admission.surge_pod_policy(expression):
            self._api.create(obj)
