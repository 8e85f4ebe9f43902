"""Policies of pods that had better be replaced on another node, whichever it is: because of what became of them where they stand.

A subclass says which pods, and why; this module knows the rest. A pod counts while it stands where the snapshot shows it, so a pod
that a plan moves, and its replacement, count no more. Pure.

TooManyRestarts gives a workload up whose pods left several nodes for it in vain. What counts them are the hints on the nodes that moves
left (``planning.avoid``), which outlive the controller: so it tries again once they have ended.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final, Generic, TypeVar
from zlib import crc32

import msgspec
import numpy as np

from rescheduler.model.counted import plural, verb
from rescheduler.model.records import Pod, PodPhase
from rescheduler.model.times import format_duration
from rescheduler.model.written import SECONDS, document_key
from rescheduler.policies.framework import PolicyView, PolicyWarning
from rescheduler.policies.objective import ONE, Tier, gain, nothing, unchanged
from rescheduler.policies.pod_costs import elsewhere
from rescheduler.policies.proposals import NODE, Batch, Proposals, by_gain, by_name
from rescheduler.policies.wire import ArgumentProblem, PolicyArgs
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import IntArray

ArgsT = TypeVar("ArgsT", bound=PolicyArgs)
PodsToReplace = Mapping[str, tuple[Pod, str]]
"""By uid the pod and why it is to leave, for people, after its name."""


class ReplacingPolicy(ABC, Generic[ArgsT]):
    """Each such pod costs one pod in tier Soft, and nothing wherever its replacement stands."""

    name: str
    reason: ClassVar[str]
    tier: ClassVar[Tier] = Tier.SOFT

    def __init__(self, args: ArgsT) -> None:
        self.args = args
        self._scope = args.scope()

    @abstractmethod
    def to_replace(self, view: PolicyView) -> PodsToReplace:
        """Which pods of ``view.snapshot`` are to leave; those outside of the scope may be among them."""

    def candidates(self, view: PolicyView) -> Proposals:
        """Those that still stand."""
        asked, counted = self._scope.nodes(view.nodes), self._counted(view)
        found: defaultdict[tuple[PodClass, str], list[Pod]] = defaultdict(list)
        for kind, pod in self._standing(view):
            if asked[view.state.node_index[pod.node]]:
                found[kind, counted[pod.uid][1]].append(pod)
        return by_gain(
            Batch(
                kind=kind,
                pods=by_name(pods),
                policy=self.name,
                reason=self.reason,
                message=why,
                gain=gain(self.tier, 1),
                tier=self.tier,
            )
            for (kind, why), pods in found.items()
        )

    def badness(self, view: PolicyView) -> IntArray:
        """One pod each."""
        total = nothing()
        total[self.tier] = ONE * len(self._standing(view))
        return total

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """One pod less, wherever it goes; but a replacement that is such a pod itself counts where that one stood."""
        leaves, home = self._counts(pod, pod.node, view), self._counted(view).get(replacement.uid)
        if not leaves and home is None:
            return unchanged(view.nodes.size)
        by_node: IntArray = np.full(view.nodes.size, -ONE * leaves, dtype=np.int64)
        if home is not None:
            by_node[view.state.node_index[home[0].node]] += ONE
        return elsewhere(self.tier, by_node, view.state.node_index[pod.node])

    def _counts(self, pod: Pod, node: str, view: PolicyView) -> bool:
        found = self._counted(view).get(pod.uid)
        return found is not None and found[0].node == node

    def _standing(self, view: PolicyView) -> list[tuple[PodClass, Pod]]:
        """Those that no planned move has taken away."""

        def standing() -> list[tuple[PodClass, Pod]]:
            kinds = dict.fromkeys(view.cluster.kind_of(pod) for pod, _ in self._counted(view).values())
            return [(kind, pod) for kind in kinds for pod in kind.pods if self._counts(pod, pod.node, view)]

        return view.memo.of((self, ReplacingPolicy), view.cluster.version, standing)

    def _counted(self, view: PolicyView) -> PodsToReplace:
        """Those in scope on known nodes. It changes with the time, too."""

        def count() -> PodsToReplace:
            return {
                uid: (pod, why)
                for uid, (pod, why) in self.to_replace(view).items()
                if pod.node in view.state.node_index and self._scope.proposes(view.cluster.kind_of(pod))
            }

        stamp = id(view.snapshot), view.snapshot.taken_at_s
        return view.nodes.memo.of((self, ReplacingPolicy), stamp, count)


LEAST_AGE_S: Final = 600.0
"""A younger limit would move a pod as soon as its replacement had come up."""
_CRC_VALUES: Final = 1 << 32


class PodLifeTimeArgs(PolicyArgs, frozen=True, kw_only=True, rename=document_key):
    """``max_age_s``: a pod may live for so long and up to the share ``jitter`` longer, so that replicas do not go together."""

    max_age_s: Annotated[float, SECONDS, msgspec.Meta(ge=LEAST_AGE_S)] = 30 * 86_400.0
    jitter: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.1


class PodLifeTime(ReplacingPolicy[PodLifeTimeArgs]):
    """Running pods that were created longer ago than that; each has a limit of its own, which its uid gives."""

    name: str = "PodLifeTime"
    reason: ClassVar[str] = "TooOld"

    def to_replace(self, view: PolicyView) -> PodsToReplace:
        """Those past their limit."""
        now_s, most_s = view.snapshot.taken_at_s, self.args.max_age_s
        why = f"is older than {format_duration(most_s)}"
        return {
            pod.uid: (pod, why)
            for pod in view.snapshot.pods.values()
            if 0.0 < pod.created_at_s <= now_s - most_s
            and pod.phase is PodPhase.RUNNING
            and pod.created_at_s <= now_s - self._limit_s(pod.uid)
        }

    def _limit_s(self, uid: str) -> float:
        return self.args.max_age_s * (1.0 + self.args.jitter * crc32(uid.encode()) / _CRC_VALUES)


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
            if pod.restarts + pod.init_restarts >= threshold  # of nearly all pods this says it, without a call
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
