"""Which pods are left alone, and why: refusals are values. Pure.

Order: what nothing can override (no controller to bring the pod back, one pod per node, rules that are not
judged here), then what an annotation of the owner forbids, then what is configured, which our own annotation
or the descheduler's ``evict`` overrides.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from rescheduler.model.names import (
    ANNOTATION_EVICT,
    DESCHEDULER_EVICT,
    DESCHEDULER_PREFER_NO_EVICTION,
    DO_NOT_DISRUPT,
    SAFE_LOCAL_VOLUMES,
    SAFE_TO_EVICT,
)
from rescheduler.model.never_moves import NeverMoves, never_moves
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import Pod, PodPhase, Workload
from rescheduler.model.selectors import NO_LABELS
from rescheduler.model.times import parse_duration
from rescheduler.planning.limits import SYSTEM_NAMESPACES, Protections
from rescheduler.planning.plan import Blocked, SkipReason
from rescheduler.replacements.identity import keeps_name
from rescheduler.replacements.reasons import NoReplacement
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.dynamic_resources import allocated_devices
from rescheduler.scheduling.volume_restrictions import ACCESS_MODE, exclusive_claims

SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""Priority of system-cluster-critical; pods at or above it are never moved."""

_SCALED: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")
_ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
_LOCAL: Final = (VolumeKind.EMPTY_DIR, VolumeKind.HOST_PATH)
_NEVER: Final = {
    NeverMoves.STATIC_POD: "static pod",
    NeverMoves.PLACEHOLDER: "placeholder",
    NeverMoves.NO_CONTROLLER: "no controller",
}
_CLAIMS: Final = (VolumeKind.CLAIM, VolumeKind.EPHEMERAL)
CONFIGURED: Final = "protections."
"""What the names of protections of the configuration begin with."""


class Lifted(enum.Flag):
    """What does not keep a pod from being moved this time."""

    NOTHING = 0
    CONFIGURED = enum.auto()
    """The protections of the configuration."""
    ROLLOUT = enum.auto()
    """A rollout of its workload."""


class Protector:
    """Judges pods of one snapshot; what many pods share is judged once."""

    def __init__(
        self,
        replacements: Replacements,
        protections: Protections,
        covered: Callable[[Pod], bool],
        judges: Callable[[str], bool] = "default-scheduler".__eq__,
    ) -> None:
        """``covered``: True for pods that a PodDisruptionBudget selects. ``judges``: schedulers whose rules are known."""
        self._snapshot = replacements.snapshot
        self._protections = protections
        self._covered = covered
        self._judges = judges
        self._devices = allocated_devices(replacements.snapshot)
        self._replacements = replacements
        self._shared: dict[tuple[object, ...], Blocked | None] = {}
        self._young: dict[float, Blocked] = {}
        """By when they began."""
        nodes = replacements.snapshot.nodes.values()
        self._silent_nodes = frozenset(n.name for n in nodes if not n.ends_pods)
        self._kept_nodes = self._silent_nodes.union(n.name for n in nodes if n.do_not_disrupt)
        """Nodes whose pods stay, whatever they are."""

    def movable(self, pod: Pod) -> bool:
        """True if nothing holds the pod back."""
        return self.refusal(pod) is None

    def ordinary(self, pod: Pod) -> bool:
        """True if ``refusal`` says the same of every ordinary pod with its namespace, spec, labels, notes, controller and youth."""
        return (
            not pod.deleting
            and pod.phase not in _ENDED
            and pod.node not in self._kept_nodes
            and (pod.annotations is NO_LABELS or pod.annotations.get(DO_NOT_DISRUPT) is None)
        )

    def youth(self, pod: Pod) -> float | None:
        """When a pod began that is too young to be moved; None: it is old enough."""
        began_s = _began_s(pod)
        return None if self._is_old_enough(began_s) else began_s

    def same_for_class(self, known: PodClass, one: Pod) -> bool:
        """True if ``refusal`` says the same of all pods of the class of this one, wherever they stand."""
        return self._protections.min_age_s <= 0 and self.ordinary(one) and not self._on_kept_node(known)

    def _on_kept_node(self, known: PodClass) -> bool:
        """True if a pod of the class stands on a node whose pods stay."""
        kept = self._kept_nodes
        return bool(kept) and known.memo.of(
            "kept", (known.version, kept), lambda: any(pod.node in kept for pod in known.pods)
        )

    def movable_class(self, known: PodClass) -> bool | None:
        """``movable`` of all pods that stand (at least one); None if that is to be asked for each."""
        one = known.pods[0]
        if one.deleting or one.annotations.get(DO_NOT_DISRUPT) is not None or self._on_kept_node(known):
            return None
        stamp = (
            self._protections,
            self._protections.without_budget and self._covered(one),
            self._snapshot.top_workload(one),
            self._replacements.follows_from(one),
            self._devices,
        )
        if not known.memo.of(Protector, stamp, lambda: self._shared_refusal(one) is None):
            return False
        if self._protections.min_age_s <= 0 or _overridden(one):
            return True
        oldest_s, youngest_s = known.memo.of(_began_s, known.version, lambda: _first_and_last(known.pods))
        old_enough = self._is_old_enough(youngest_s)
        return old_enough if old_enough or not self._is_old_enough(oldest_s) else None

    def refusal(self, pod: Pod, *, lifted: Lifted = Lifted.NOTHING) -> Blocked | None:
        """The first reason why the pod is left alone, or None."""
        if pod.deleting:
            return _protected("is terminating", "deletionTimestamp")
        if pod.phase in _ENDED:
            return _protected(f"has ended ({pod.phase})", "status.phase")
        if pod.node in self._silent_nodes:
            words = f"cannot end: node/{pod.node} is not Ready or unreachable"
            return _protected(words, f"node/{pod.node}")
        if pod.node in self._kept_nodes:
            return _protected(f"is on node/{pod.node}, which is annotated {DO_NOT_DISRUPT}", DO_NOT_DISRUPT)
        return self._shared_refusal(pod, lifted=lifted) or self._by_age(pod, lifted=lifted)

    def _shared_refusal(self, pod: Pod, *, lifted: Lifted = Lifted.NOTHING) -> Blocked | None:
        """The first reason that does not depend on the single pod."""
        key = (
            pod.namespace,
            id(pod.spec),
            id(pod.labels),
            id(pod.annotations),
            id(pod.controller),
            pod.owns,
            pod.owner_pods,
            lifted,
        )
        if key not in self._shared:
            self._shared[key] = next(self._judge(pod, lifted=lifted), None)
        return self._shared[key]

    def _is_old_enough(self, began_s: float) -> bool:
        least_s = self._protections.min_age_s
        return least_s <= 0 or self._snapshot.taken_at_s - began_s >= least_s

    def _judge(self, pod: Pod, *, lifted: Lifted) -> Iterator[Blocked]:
        yield from self._impossible(pod, lifted=lifted)
        yield from self._unsupported(pod)
        yield from _forbidden(pod)
        if not (Lifted.CONFIGURED in lifted or _overridden(pod)):
            yield from self._configured(pod)

    def _impossible(self, pod: Pod, *, lifted: Lifted) -> Iterator[Blocked]:
        never = never_moves(pod)
        if never is NeverMoves.DAEMON_POD and pod.controller is not None:
            name = f"DaemonSet {pod.controller.name}"
            yield _protected(f"belongs to {name}", name)
        elif never is not None:
            yield _protected(never.value, _NEVER[never])
        yield from _critical(pod)
        yield from self._changing(pod, lifted=lifted)

    def _changing(self, pod: Pod, *, lifted: Lifted) -> Iterator[Blocked]:
        """A workload that changes its pods right now is left to do so."""
        workload = self._workload(pod)
        if workload is None:
            return
        top = self._snapshot.top_workload(pod) or workload
        scaled = workload.kind in _SCALED and workload.replicas == 0
        for busy, of, what in (
            (workload.deleting or top.deleting, top, "is being deleted"),
            (scaled, workload, "is scaled to 0"),
            (top.changes_pods and Lifted.ROLLOUT not in lifted, top, "is rolling out a change"),
        ):
            if busy:
                yield Blocked(SkipReason.WORKLOAD_BUSY, f"belongs to {_named(of)}, which {what}", _named(of))

    def _unsupported(self, pod: Pod) -> Iterator[Blocked]:
        found = self._replacements.of(pod)
        if found.reason not in (None, NoReplacement.NEVER_MOVES):
            reason = SkipReason.WORKLOAD_BUSY if found.reason.passes else SkipReason.NOT_SUPPORTED
            yield Blocked(reason, found.message, str(found.reason))
        yield from _unjudged(pod, self._judges)
        for name, amount in pod.spec.requests.scalars if self._devices else ():
            if amount and name in self._devices:
                yield Blocked(
                    SkipReason.NOT_SUPPORTED,
                    f"is given devices for {name}, whose placement is not judged here",
                    name,
                )
        if not keeps_name(pod):
            yield from self._exclusive(pod)

    def _exclusive(self, pod: Pod) -> Iterator[Blocked]:
        """A claim that one pod may use at a time keeps the replacement off every node while the pod ends, whatever room there is."""
        for key in exclusive_claims(pod, self._snapshot.claims):
            words = f"uses claim {key.name}, {ACCESS_MODE}, which keeps its replacement off every node until it has ended"
            yield Blocked(SkipReason.NOT_SUPPORTED, words, f"{ACCESS_MODE} ({key.name})")

    def _not_disrupted_yet(self, pod: Pod) -> bool:
        """Karpenter also takes a duration since the start of the pod; an unreadable one is ignored."""
        value = pod.annotations.get(DO_NOT_DISRUPT)
        if not value:
            return False
        try:
            length_s = parse_duration(value)
        except ValueError:
            return False
        return pod.started_at_s == 0.0 or self._snapshot.taken_at_s < _began_s(pod) + length_s

    def _configured(self, pod: Pod) -> Iterator[Blocked]:
        rules, spec = self._protections, pod.spec
        if not rules.namespaces.admits(pod.namespace, SYSTEM_NAMESPACES):
            yield _protected(
                "is in a namespace that is left alone", f"protections.namespaces ({pod.namespace})"
            )
        if rules.label_selector is not None and not rules.label_selector.matches(pod.labels):
            yield _protected("has labels outside of what may be moved", "protections.labelSelector")
        if spec.priority >= rules.priority_threshold:
            yield _protected(
                f"has priority {spec.priority}, at or above {rules.priority_threshold}",
                "protections.priorityThreshold",
            )
        if rules.local_storage and keeps_local_data(pod):
            yield _protected("has data on its node", "protections.localStorage")
        if rules.persistent_volumes and any(v.kind in _CLAIMS for v in spec.volumes):
            yield _protected("uses persistent volumes", "protections.persistentVolumes")
        yield from self._below_min_replicas(pod)
        if rules.without_budget and not self._covered(pod):
            yield _protected("is selected by no PodDisruptionBudget", "protections.withoutBudget")
        if rules.prefer_no_eviction and pod.annotations.get(DESCHEDULER_PREFER_NO_EVICTION) is not None:
            yield _protected(f"is annotated {DESCHEDULER_PREFER_NO_EVICTION}", "protections.preferNoEviction")

    def _below_min_replicas(self, pod: Pod) -> Iterator[Blocked]:
        workload = self._workload(pod)
        least = self._protections.min_replicas
        if workload is not None and least > 1 and workload.replicas < least:
            yield Blocked(
                SkipReason.SINGLE_REPLICA,
                f"belongs to {_named(workload)}, which has {workload.replicas} of at least {least} replicas",
                "protections.minReplicas",
            )

    def _by_age(self, pod: Pod, *, lifted: Lifted) -> Blocked | None:
        """What depends on the age of the single pod."""
        if pod.annotations is not NO_LABELS and self._not_disrupted_yet(pod):
            return _annotated(DO_NOT_DISRUPT, pod.annotations[DO_NOT_DISRUPT])
        began_s = _began_s(pod)
        if self._is_old_enough(began_s) or Lifted.CONFIGURED in lifted or _overridden(pod):
            return None
        known = self._young.get(began_s)
        if known is None:
            age_s, least_s = self._snapshot.taken_at_s - began_s, self._protections.min_age_s
            words = f"is {age_s:.0f} s old, less than {least_s:.0f} s"
            known = self._young[began_s] = _protected(words, "protections.minAge")
        return known

    def _workload(self, pod: Pod) -> Workload | None:
        return self._snapshot.workloads.get(pod.controller.uid) if pod.controller is not None else None


class Protectors:
    """Who judges for which policy: profiles have protections of their own. Policies with equal ones share a Protector."""

    def __init__(
        self,
        replacements: Replacements,
        protections: Protections,
        profiles: Mapping[str, Protections],
        covered: Callable[[Pod], bool],
        judges: Callable[[str], bool] = "default-scheduler".__eq__,
    ) -> None:
        """``profiles``: the protections of policies that are in one, by their names; ``protections``: of all others."""
        made = {
            one: Protector(replacements, one, covered, judges) for one in {protections, *profiles.values()}
        }
        self._others = made[protections]
        self._by_policy = {name: made[one] for name, one in profiles.items()}

    def of(self, policy: str) -> Protector:
        """Who judges the pods that this policy moves."""
        return self._by_policy.get(policy, self._others)

    def among(self, policies: Iterable[str]) -> tuple[Protector, ...]:
        """All that judge for any of these; of no policy: the one of moves that people ask for."""
        return tuple(dict.fromkeys(map(self.of, policies))) or (self._others,)


def stays_by_itself(pod: Pod, judges: Callable[[str], bool]) -> Blocked | None:
    """Why the pod is left alone, if the pod alone tells it: whatever is configured, and whatever becomes of its controller."""
    return next(chain(_critical(pod), _unjudged(pod, judges), _forbidden(pod)), None)


def _critical(pod: Pod) -> Iterator[Blocked]:
    if pod.spec.priority >= SYSTEM_CRITICAL_PRIORITY:
        yield _protected(f"is critical to the system (priority {pod.spec.priority})", "priority")


def _unjudged(pod: Pod, judges: Callable[[str], bool]) -> Iterator[Blocked]:
    spec, group, scheduler = pod.spec, pod.spec.scheduling_group, pod.spec.scheduler_name
    ephemeral = any(volume.kind is VolumeKind.EPHEMERAL for volume in spec.volumes)
    for holds, words, by in (
        (spec.resource_claims, "uses dynamic resource claims, whose placement is not judged here", "spec.resourceClaims"),
        (group, f"belongs to PodGroup {group}, whose pods kube-scheduler places together: that is not judged here", "spec.schedulingGroup"),
        (ephemeral, "has an ephemeral volume, whose claim is not judged before the new pod exists", "spec.volumes"),
        (not judges(scheduler), f"is placed by scheduler {scheduler}, whose rules are not known here", scheduler),
    ):  # fmt: skip
        if holds:
            yield Blocked(SkipReason.NOT_SUPPORTED, words, by)


def _forbidden(pod: Pod) -> Iterator[Blocked]:
    if pod.annotations is NO_LABELS:
        return
    if pod.annotations.get(ANNOTATION_EVICT) == "false":
        yield _annotated(ANNOTATION_EVICT, "false")
    if pod.annotations.get(SAFE_TO_EVICT) == "false":
        yield _annotated(SAFE_TO_EVICT, "false")
    if pod.annotations.get(DO_NOT_DISRUPT) == "true":
        yield _annotated(DO_NOT_DISRUPT, "true")


def keeps_local_data(pod: Pod) -> bool:
    """True if the pod has local volumes and its owner does not say that they may be lost, as cluster-autoscaler reads it."""
    local = [volume.source for volume in pod.spec.volumes if volume.kind in _LOCAL]
    if not local or pod.annotations.get(SAFE_TO_EVICT) == "true":
        return False
    safe = {name.strip() for name in (pod.annotations.get(SAFE_LOCAL_VOLUMES) or "").split(",")}
    return not safe.issuperset(local)


def _overridden(pod: Pod) -> bool:
    """The descheduler's annotation counts by its presence, as there."""
    return pod.annotations is not NO_LABELS and (
        pod.annotations.get(ANNOTATION_EVICT) == "true" or pod.annotations.get(DESCHEDULER_EVICT) is not None
    )


def _annotated(name: str, value: str) -> Blocked:
    return _protected(f"is annotated {name}={value}", name)


def _protected(message: str, by: str) -> Blocked:
    return Blocked(SkipReason.PROTECTED, message, by)


def _named(workload: Workload) -> str:
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def _began_s(pod: Pod) -> float:
    """When the pod was started. A kubelet says it by its own clock, so never before the API server created the pod."""
    return max(pod.started_at_s, pod.created_at_s)


def _first_and_last(pods: Iterable[Pod]) -> tuple[float, float]:
    """When the first and the last of them began."""
    began_s = list(map(_began_s, pods))
    return min(began_s), max(began_s)
