"""What the program sees of the cluster is taken away from it for a while: gentle disturbances, since all of it comes back.

Kinds are not served (404 in plain text, of a proxy or because their definitions are made again), and lists of them are
empty once. Drawn from a random stream of their own: histories without them are those of before.
"""

from __future__ import annotations

import random
from typing import Final

from harness.histories.program import Program
from harness.histories.script import Milestone, Script
from rescheduler.kube.reflector import EndKind
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.sandbox.sandbox import Sandbox

_AT_WORK: Final = 0.2
"""Share of the histories in which this happens."""
_KINDS: Final = (
    Kind.POD_MIGRATION,
    Kind.POD_MIGRATION,
    Kind.RESERVATION,
    Kind.RESERVATION,
    Kind.REPLICA_SET,
    Kind.NODE,
    Kind.POD,
)
_GONE_S: Final = (0.5, 2.0, 8.0, 20.0)
_MOST: Final = 3
"""The most of them in one history."""
_MILESTONES: Final = (Milestone.WRITE, Milestone.AVAILABLE, Milestone.INTENT, Milestone.EVICTED)


class Sights:
    """Writes its own part of the script."""

    def __init__(self, cluster: Sandbox, seed: int, *, script: Script, program: Program) -> None:
        self._cluster, self._script, self._program = cluster, script, program
        self._rng = random.Random(f"sights {seed}")  # noqa: S311 - reproducible
        self._at_work = self._rng.random() < _AT_WORK

    def write_script(self) -> None:
        """Draw what happens, and when."""
        if not self._at_work:
            return
        rng = self._rng
        for _ in range(rng.randint(1, _MOST)):
            name, do = rng.choice((("kind not served", self._unserve), ("empty list", self._empty)))
            milestone = rng.choice(_MILESTONES)
            count = rng.randint(1, 12 if milestone is Milestone.WRITE else 2)
            self._script.after(count, milestone, name, do, later_s=rng.choice((0.001, 0.1, 1.0)))

    def undo(self) -> None:
        """All is seen again."""
        self._program.line.unserved.clear()

    def _unserve(self) -> None:
        kind, until_s = self._rng.choice(_KINDS), self._cluster.clock() + self._rng.choice(_GONE_S)
        end = self._rng.choice((EndKind.UNPROVEN, EndKind.ABSENT))
        self._program.caches.unserve(kind, until_s, end)
        if end is EndKind.ABSENT and RESOURCES[kind].group:
            self._program.line.unserved[f"/{RESOURCES[kind].plural}"] = until_s

    def _empty(self) -> None:
        self._program.caches.empty(self._rng.choice(_KINDS), 1)
