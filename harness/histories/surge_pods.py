"""What admission of others makes of replacements that start first: own module, own random stream.

A policy that spoils new ones comes at a random moment, and goes again. The invariants: at each eviction the replacement is on the node
of its move and asks for no less than the pod that it takes the place of.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

from harness.histories import admission
from harness.histories.disturbances import GATE_BINDING, GATE_POLICY
from harness.histories.script import Script
from kube_sandbox.sandbox import Sandbox

_AT_WORK: Final = 0.1
"""Share of the histories in which this happens."""
_MOST: Final = 2
_UNTIL_S: Final = 6.0
_LASTS_S: Final = (4.0, 15.0, 60.0)


class ChangedSurgePods:
    """Writes its own part of the script."""

    def __init__(self, cluster: Sandbox, seed: int, *, script: Script) -> None:
        self._cluster, self._script = cluster, script
        self._rng = random.Random(f"surge pods {seed}")  # noqa: S311 - reproducible
        self._at_work = self._rng.random() < _AT_WORK

    def write_script(self) -> None:
        """Draw what happens, and when."""
        rng, ways = self._rng, admission.SPOILED_SURGE_PODS
        for what in rng.choices(list(ways), k=rng.randint(1, _MOST)) if self._at_work else ():
            from_s = self._cluster.clock() + rng.uniform(0.0, _UNTIL_S)
            self._script.at(from_s, f"surge pods: {what}", partial(self._admit, ways[what]))
            self._script.at(from_s + rng.choice(_LASTS_S), "surge pods as before", self.undo)

    def undo(self) -> None:
        """Admission ends."""
        for kind in (GATE_BINDING, GATE_POLICY):
            found = self._cluster.api.get(kind, "", admission.OF_SURGE_PODS)
            if found is not None:
                self._cluster.api.delete(found)

    def _admit(self, expression: str) -> None:
        self.undo()
        for obj in admission.surge_pod_policy(expression):
            self._cluster.api.create(obj)
