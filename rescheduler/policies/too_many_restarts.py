"""TooManyRestarts: pods that restart again and again on their node, while replicas elsewhere are well.

It gives a workload up whose pods left several nodes for it in vain. What counts them are the hints on the nodes that moves left
(``planning.avoid``), which outlive the controller: so it tries again once they have ended.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Annotated, ClassVar

import msgspec

from rescheduler.model.counted import plural, verb
from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView, PolicyWarning
from rescheduler.policies.proposals import NODE
from rescheduler.policies.replacing_policy import PodsToReplace, ReplacingPolicy
from rescheduler.policies.wire import ArgumentProblem, PolicyArgs


class TooManyRestartsArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """``podRestartThreshold``: so many restarts of its containers are too many.

    ``includingInitContainers``: those of init containers, sidecars among them, count, too.
    ``requireHealthyReplicas``: only if a replica on another node is Ready with fewer restarts: else the node may not be why.
    ``mostNodes``: once pods of its controller have left so many nodes for it, as long as the hints there last, it stays; 0: never.
    """

    pod_restart_threshold: Annotated[int, msgspec.Meta(ge=1)] = 100
    including_init_containers: bool = False
    require_healthy_replicas: bool = True
    most_nodes: Annotated[int, msgspec.Meta(ge=0)] = 3

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        if self.most_nodes and self.hint == 0:
            yield (
                ("hint",),
                "is 0s: mostNodes counts the nodes with a hint; write mostNodes: 0 or a longer hint",
            )


class _Outcome(enum.Enum):
    """What becomes of a pod that restarted too often."""

    GOES = enum.auto()
    NO_HEALTHY_REPLICA = enum.auto()
    GIVEN_UP = enum.auto()


class TooManyRestarts(ReplacingPolicy[TooManyRestartsArgs]):
    """Restarts are those of the containers together; its replacement begins at none."""

    name: str = "TooManyRestarts"
    reason: ClassVar[str] = "TooManyRestarts"

    def to_replace(self, view: PolicyView) -> PodsToReplace:
        """Those whose node may be why."""
        return {
            pod.uid: (pod, f"restarted {plural(self._restarts(pod), 'time')} on node/{NODE}")
            for pod, outcome in self._found(view)
            if outcome is _Outcome.GOES
        }

    def warnings(self, view: PolicyView) -> Iterator[PolicyWarning]:
        """How many restart as often and stay, and why."""
        number = Counter(outcome for _, outcome in self._found(view))
        reasons = (
            (_Outcome.NO_HEALTHY_REPLICA, "no replica on another node is well"),
            (
                _Outcome.GIVEN_UP,
                f"pods of their controllers left {plural(self.args.most_nodes, 'node')} for it in vain",
            ),
        )
        for outcome, why in reasons:
            if left := number[outcome]:
                yield PolicyWarning(
                    f"{self.name}: {plural(left, 'pod')} {verb(left, 'restarts', 'restart')} as often and "
                    f"{verb(left, 'stays', 'stay')}, for {why}"
                )

    def _restarts(self, pod: Pod) -> int:
        return pod.restarts + (pod.init_restarts if self.args.including_init_containers else 0)

    def _found(self, view: PolicyView) -> list[tuple[Pod, _Outcome]]:
        """The pods with too many restarts in scope, and whether they may go for it."""
        return view.memo.of((self, "restarts"), None, lambda: self._look(view))

    def _look(self, view: PolicyView) -> list[tuple[Pod, _Outcome]]:
        pods, threshold = view.snapshot.pods, self.args.pod_restart_threshold
        often = [
            pod
            for pod in pods.values()
            # Of nearly all pods this says it, without a call.
            if (state := pod.state).restarts + state.init_restarts >= threshold
            and self._restarts(pod) >= threshold and pod.node and pod.controller is not None and not pod.deleting
            and self._scope.admits(pod)
        ]  # fmt: skip
        if not often:
            return []
        owners = {pod.controller.uid for pod in often if pod.controller is not None}
        well: defaultdict[str, set[str]] = defaultdict(set)
        for pod in pods.values() if self.args.require_healthy_replicas else ():
            owner = pod.controller
            if owner is not None and owner.uid in owners and pod.ready and self._restarts(pod) < threshold:
                well[owner.uid].add(pod.node)
        left = self._nodes_left(view)
        return [(pod, self._outcome(pod, pod.controller.uid, well, left)) for pod in often if pod.controller]

    def _outcome(
        self, pod: Pod, owner: str, well: defaultdict[str, set[str]], left: Counter[tuple[str, str]]
    ) -> _Outcome:
        if 0 < self.args.most_nodes <= left[pod.namespace, owner]:
            return _Outcome.GIVEN_UP
        if self.args.require_healthy_replicas and not well[owner] - {pod.node}:
            return _Outcome.NO_HEALTHY_REPLICA
        return _Outcome.GOES

    def _nodes_left(self, view: PolicyView) -> Counter[tuple[str, str]]:
        """By namespace and uid of a controller, how many nodes its pods left for this policy."""
        now_s = view.snapshot.taken_at_s
        return Counter(
            (entry.namespace, entry.controller_uid)
            for node in view.snapshot.nodes.values()
            for entry in node.avoid
            if entry.reason == self.name and entry.expires_at_s > now_s
        )
