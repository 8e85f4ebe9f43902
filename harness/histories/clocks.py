"""Clocks that are set in a history: that of the API server, and that of the program's machine, which also stands still.

In one of four histories one to three times; minutes or hours, forward and back. What the API server writes into objects and into
``Date`` follows its clock; all other components of the cluster keep theirs, as other machines do. The clock of the program's machine
is what a Lease and its logs show; a machine that stands still (a virtual machine that is paused) has not counted the time either. All
draws come from a stream of their own, so that histories without them stay as they were.

At the end the API server's clock shows the latest time that it ever showed, so that nothing lives in its future.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.histories.observed_cluster import Seen, app_of
from harness.histories.theme import Stage, Theme
from kube_sandbox.controllers.unstructured import labels, spec, uid

_UNTIL_S: Final = 10.0
_ROUND_S: Final = 0.02
"""From the last look of a round to the last of its calls."""
_STEPS_S: Final = (7.0, 65.0, 600.0, 3_600.0, 10_800.0)
_GATE_VALID_S: Final = 60.0
_PAUSES_S: Final = (2.0, 20.0, 90.0)


@dataclass(slots=True)
class SetClock:
    """A clock that can be set."""

    true: Callable[[], float]
    ahead_s: float = 0.0
    furthest_s: float = 0.0
    set_at_s: float = 0.0
    """The true time at which it was set last; 0: never."""
    far_at_s: list[float] = field(default_factory=list)
    """The true times at which it was set back, or forward by more than the gate is valid."""

    def __call__(self) -> float:
        """What it shows."""
        return self.true() + self.ahead_s

    def step(self, by_s: float) -> None:
        """Set it forward, or back."""
        self.ahead_s += by_s
        self.furthest_s = max(self.furthest_s, self.ahead_s)
        self.set_at_s = self.true()
        if by_s < 0 or by_s > _GATE_VALID_S:
            self.far_at_s.append(self.set_at_s)

    def late_s(self, moment_s: float) -> float:
        """For how long it has shown that moment or a later one."""
        return min(self() - moment_s, self.true() - self.set_at_s)

    def catch_up(self) -> None:
        """Set it to the latest time that it showed."""
        if self.ahead_s < self.furthest_s:
            self.step(self.furthest_s - self.ahead_s)


class Clocks(Theme):
    """Sets the clocks. ``server``: that of the API server."""

    stream, share = "clocks", 0.25

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.server = SetClock(stage.cluster.clock)
        self._paused_at_s: float | None = None

    def write_script(self) -> None:
        """Draw when clocks are set."""
        rng = self._rng
        self._cluster.server.store.clock = self.server
        ways = (
            ("API server's clock set", self._set_server),
            ("API server's clock set", self._set_server),
            ("controller's clock set", self._set_machine),
            ("controller's machine paused", self._pause),
        )
        for _ in range(rng.randint(1, 3)):
            self._in(rng.uniform(0.0, _UNTIL_S), *rng.choice(ways))

    def undo(self) -> None:
        """The program's machine runs, and nothing lives in the API server's future."""
        self._go_on()
        self.server.catch_up()

    def excused(self, seen: Seen, evicted_at_s: Mapping[str, float]) -> set[str]:
        """Uids of moves whose replacement was created once the API server's clock had been set far after the last look before their eviction.

        By that clock it is older than the intent to evict, or the gate is not valid any more. ``evicted_at_s``: true times of evictions, by uid of the pod.
        """
        found = set[str]()
        for known, move in seen.moves.items():
            evicted_s = evicted_at_s.get(spec(move)["podRef"].get("uid", ""))
            far = [
                at_s
                for at_s in self.server.far_at_s
                if evicted_s is not None and at_s >= evicted_s - _ROUND_S
            ]
            mine = [p for p in seen.pods.values() if labels(p).get("app") == app_of(move)]
            if far and any(seen.born_s[uid(p)] >= far[0] for p in mine):
                found.add(known)
        return found

    def _set_server(self) -> None:
        self.server.step(self._step_s())

    def _set_machine(self) -> None:
        self._program.wall_ahead_s += self._step_s()

    def _pause(self) -> None:
        if self._program.frozen:
            return
        pause_s = self._rng.choice(_PAUSES_S)
        self._program.frozen = True
        self._paused_at_s = self._cluster.clock()
        self._script.at(self._paused_at_s + pause_s, "controller's machine goes on", self._go_on)

    def _go_on(self) -> None:
        if self._paused_at_s is not None:
            self._program.stood_still(self._cluster.clock() - self._paused_at_s)
            self._paused_at_s, self._program.frozen = None, False

    def _step_s(self) -> float:
        return self._rng.choice((-1.0, 1.0)) * self._rng.choice(_STEPS_S)
