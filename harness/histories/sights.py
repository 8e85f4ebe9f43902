"""What the program sees of the cluster is taken away from it for a while: gentle disturbances, since all of it comes back.

New pods of the workloads are refused (a webhook that is down), kinds are not served (404 in plain text, of a proxy or because their definitions are made again), lists of them are
empty once, another controller clears or deletes the gate keys,
and all watches are some seconds behind. While they are far behind, nothing may be evicted (``faults``). Drawn from a random stream of their own: histories without them are those of before.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

from harness.histories.admission import OF_AN_OUTAGE, refusing_policy
from harness.histories.rooms import FAR_BEHIND
from harness.histories.theme import Stage, Theme
from kube_sandbox.controllers.unstructured import GroupKind, group_kind
from rescheduler.kube.reflector import EndKind
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import DEFAULT_NAMESPACE, GATE_CONFIG_MAP

_KINDS: Final = (
    Kind.POD_MIGRATION, Kind.POD_MIGRATION, Kind.RESERVATION, Kind.RESERVATION, Kind.REPLICA_SET, Kind.NODE,
    Kind.POD,
)  # fmt: skip
_GONE_S: Final = (0.5, 2.0, 8.0, 20.0)
_LAGS_S: Final = (0.5, 2.0, 4.0, 12.0, 30.0)
_FAR_S: Final = 10.0
"""From then on replacements of pods that were evicted before may be seen too late."""
_NOTICED_S: Final = 4.0
"""For so long what was seen in time before may lead to an eviction."""
_LAGS_FOR_S: Final = (3.0, 20.0)
_ALONE: Final = 0.5
"""Share of the short lags that are of one watch alone: nothing orders the events of different kinds."""
_OURS: Final = (Kind.POD, Kind.POD_MIGRATION, Kind.RESERVATION)
_DELETED: Final = 0.3
"""Share of these in which the ConfigMap is deleted."""
_MOST: Final = 3
"""The most of them in one history."""


class Sights(Theme):
    """Takes away what the program sees."""

    stream, share = "sights", 0.2

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.rough = False
        """Watches get so far behind that replacements of pods that were evicted before may be seen too late."""

    def write_script(self) -> None:
        """Draw what happens, and when."""
        rng = self._rng
        for _ in range(rng.randint(1, _MOST)):
            name, do = rng.choice(
                (
                    ("kind not served", self._unserve),
                    ("empty list", self._empty),
                    ("gate keys cleared", self._clear_gate_keys),
                    ("new pods refused", self._refuse_pods),
                    ("watches are behind", partial(self._lag, lag_s := rng.choice(_LAGS_S))),
                )
            )
            self.rough |= name == "watches are behind" and lag_s > _FAR_S
            self._at_a_milestone(name, do, later_s=(0.001, 0.1, 1.0))

    def undo(self) -> None:
        """All is seen again, and at once."""
        self._admit_pods()
        self._program.caches.lag(0.0)
        self._program.line.unserved.clear()

    def _unserve(self) -> None:
        kind, until_s = self._rng.choice(_KINDS), self._cluster.clock() + self._rng.choice(_GONE_S)
        end = self._rng.choice((EndKind.UNPROVEN, EndKind.ABSENT))
        self._program.caches.unserve(kind, until_s, end)
        if end is EndKind.ABSENT and RESOURCES[kind].group:
            self._program.line.unserved[f"/{RESOURCES[kind].plural}"] = until_s

    def _refuse_pods(self) -> None:
        for obj in refusing_policy():
            if self._cluster.api.get(group_kind(obj), "", OF_AN_OUTAGE) is None:
                self._cluster.api.create(obj)
        ends_s = self._cluster.clock() + self._rng.choice(_GONE_S)
        self._script.at(ends_s, "new pods are taken again", self._admit_pods)

    def _admit_pods(self) -> None:
        for obj in refusing_policy():
            found = self._cluster.api.get(group_kind(obj), "", OF_AN_OUTAGE)
            if found is not None:
                self._cluster.api.delete(found)

    def _clear_gate_keys(self) -> None:
        """As another controller does that takes the ConfigMap for its own."""
        found = self._cluster.api.get(GroupKind("", "ConfigMap"), DEFAULT_NAMESPACE, GATE_CONFIG_MAP)
        if found is None:
            return
        if self._rng.random() < _DELETED:
            self._cluster.api.delete(found)
        else:
            self._cluster.api.patch(found, {"data": dict.fromkeys(found.get("data") or {})})

    def _lag(self, seconds: float) -> None:
        now_s, lasts_s, before = self._cluster.clock(), self._rng.choice(_LAGS_FOR_S), set[str]()
        far = seconds > _FAR_S
        of_its_own = random.Random(f"one kind {now_s}")  # noqa: S311 - reproducible
        alone = not far and of_its_own.random() < _ALONE
        self._program.caches.lag(seconds, (of_its_own.choice(_OURS),) if alone else tuple(RESOURCES))

        def noticed() -> None:
            before.update(self._checker.evicted)

        def over() -> None:
            self._program.caches.lag(0.0)
            again = set(self._checker.evicted) - before
            if far and again and not self._program.line.met:
                self.faults.append(
                    f"{len(again)} pods were evicted while all watches were {seconds:g} s behind"
                )

        if far:
            self._script.hits.add(FAR_BEHIND)
            self._script.at(now_s + _NOTICED_S, "what began before has gone on", noticed)
        self._script.at(now_s + max(lasts_s, _NOTICED_S), "watches are in time again", over)

    def _empty(self) -> None:
        self._program.caches.empty(self._rng.choice(_KINDS), 1)
