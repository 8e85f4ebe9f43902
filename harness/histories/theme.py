"""What the modules of single disturbances share: a random stream of their own, and their part of the script.

All draws of a theme come from its own stream, and the first one says whether the history has it at all. So histories without it stay
as they were.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.histories.checker import Checker
from harness.histories.clusters import ClusterPlan, lone_pod
from harness.histories.observed_cluster import cpu_of, node_of
from harness.histories.program import Program
from harness.histories.script import Milestone, Script
from kube_sandbox.controllers.unstructured import POD, Obj, terminal
from kube_sandbox.sandbox import Sandbox

_MILESTONES: Final = (Milestone.WRITE, Milestone.AVAILABLE, Milestone.INTENT, Milestone.EVICTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The history that a theme is part of."""

    seed: int
    cluster: Sandbox
    plan: ClusterPlan
    script: Script
    program: Program
    checker: Checker


class Theme(ABC):
    """Writes its own part of the script. ``faults``: messages about what must not happen."""

    stream: ClassVar[str]
    """Names the random numbers."""
    share: ClassVar[float]
    """Of the histories that have it."""

    def __init__(self, stage: Stage) -> None:
        self._cluster, self._api, self._clock = stage.cluster, stage.cluster.api, stage.cluster.clock
        self._plan, self._script, self._program = stage.plan, stage.script, stage.program
        self._checker = stage.checker
        self._rng = self._stream(stage.seed)
        self.at_work = self._rng.random() < self.share
        self.faults: list[str] = []
        self._serial = 0

    @classmethod
    def happens(cls, seed: int) -> bool:
        """True for a history that has it."""
        return cls._stream(seed).random() < cls.share

    @classmethod
    def _stream(cls, seed: int) -> random.Random:
        return random.Random(f"{cls.stream} {seed}")  # noqa: S311 - reproducible

    @abstractmethod
    def write_script(self) -> None:
        """Draw what happens, and when. Called only if it is at work."""

    def undo(self) -> None:  # noqa: B027 - most leave nothing
        """Put right what it has left, at the end of the disturbances."""

    def _in(self, after_s: float, name: str, do: Callable[[], None]) -> None:
        self._script.at(self._clock() + after_s, name, do)

    def _at_a_milestone(
        self, name: str, do: Callable[[], None], *, writes: int = 12, later_s: Sequence[float]
    ) -> None:
        """At one of the program's first steps of a kind, or of its first ``writes``, or a little later."""
        milestone = self._rng.choice(_MILESTONES)
        count = self._rng.randint(1, writes if milestone is Milestone.WRITE else 2)
        self._script.after(count, milestone, name, do, later_s=self._rng.choice(later_s))

    def _name(self, stem: str) -> str:
        self._serial += 1
        return f"{stem}-{self._serial}"

    def _free_milli(self) -> dict[str, int]:
        """CPU that no pod has, by node of the plan."""
        free = {machine.name: int(machine.cpu) * 1000 for machine in self._plan.machines}
        for pod in self._api.list(POD):
            if node_of(pod) in free and not terminal(pod):
                free[node_of(pod)] -= cpu_of(pod)
        return free

    def _pod(self, name: str, cpu_milli: int, label: str = "crowd") -> Obj:
        """One without a controller, of the workloads' own priority."""
        priority_class = self._plan.priority_class
        return lone_pod(name, cpu_milli=cpu_milli, priority_class=priority_class, label=label)
