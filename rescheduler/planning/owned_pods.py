"""The pods of each controller, as a decision finds them: taken from the classes of the state instead of reading all pods.

What was found out about the pods of a class is kept with it until one of them changes, so that a decision after few changes
looks at few pods. Everything is taken when this is made, before any trial move; afterwards trial moves change nothing here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from rescheduler.model.records import Pod
from rescheduler.replacements.siblings import Alike, age
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.state import SchedulingState


class OwnedPods:
    """Pods by uid of their controller. Those that have ended, and those without a node, belong to it as well."""

    def __init__(self, state: SchedulingState) -> None:
        """``state``: without trial moves."""
        self._pods: defaultdict[str, list[Iterable[Pod]]] = defaultdict(list)
        self.alike: list[Alike] = []
        """All of them that have a controller."""
        for known in state.cluster.classes:
            if known.pods and known.controller is not None:
                self._pods[known.controller.uid].append(known.pods.copy())
                self.alike.append(_alike(known))
        for pod in chain(state.unplaced.values(), state.ended.values()):
            if pod.controller is not None:
                self._pods[pod.controller.uid].append((pod,))
                self.alike.append(Alike(pod, 1))

    def controllers(self) -> Iterable[str]:
        """Uids of the controllers that have pods."""
        return self._pods.keys()

    def of(self, controller_uid: str) -> Iterable[Pod]:
        """The pods of one controller, in no order."""
        return chain.from_iterable(self._pods.get(controller_uid, ()))


def _alike(known: PodClass) -> Alike:
    return known.memo.of(OwnedPods, known.version, lambda: Alike(max(known.pods, key=age), len(known.pods)))
