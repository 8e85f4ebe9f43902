"""NodeAffinity: pods whose node no longer meets their node affinity, or is liked far less than another.

Three kinds, each switched on by name: ``required`` (nodeSelector and required affinity), ``preferred`` (the
pod's own preferred terms), ``score`` (all that kube-scheduler scores, with its weights).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

import msgspec
import numpy as np

from rescheduler.model.node_marks import young_labels
from rescheduler.model.records import Pod, PodSpec
from rescheduler.model.written import document_key
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, UNITS, Tier, in_tier
from rescheduler.policies.pod_costs import CostRows, change_of_cost, sum_of_costs
from rescheduler.policies.proposals import NODE, Batch, Proposals, by_gain
from rescheduler.policies.score_potential import ScorePotential, owners_terms
from rescheduler.policies.wire import Age, ArgumentProblem, PolicyArgs
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray, NodeIndices
from rescheduler.scheduling.node_affinity import preferred_weights, required_mask

REQUIRED: Final = "required"
PREFERRED: Final = "preferred"
SCORE: Final = "score"
TYPES: Final = (REQUIRED, PREFERRED, SCORE)
NOT_MET: Final = "RequiredNotMet"
SCORED_ELSEWHERE: Final = "ScoredElsewhere"
_SCORED: Final = ONE // 2
"""By all scores a pod stands as badly as can be: about half of all weights have something to say of a pod."""


_Difference = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]


class NodeAffinityArgs(PolicyArgs, frozen=True, kw_only=True, rename=document_key):
    """``types``: required, preferred, score.

    ``after_s``: for how long a node's labels must have failed what is required.
    ``minimum_difference``: share (0..1) of a pod's preferred weights that a node must meet more than the
    pod's own before it counts as clearly better. ``minimum_score_difference``: the same for type score, as a
    share of half of all weights of scores; every move changes scores a little, so it is high.
    """

    types: tuple[Literal["required", "preferred", "score"], ...] = (REQUIRED,)
    after_s: Age = 300.0
    minimum_difference: _Difference = 0.5
    minimum_score_difference: _Difference = 0.25

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        if not self.types:
            yield ("types",), f"is empty: name some of {', '.join(TYPES)}"


class NodeAffinity:
    """Badness: 1 for each pod whose node does not meet what it requires; the share of its preferred weights that its node does not meet.

    For type score what ``ScorePotential`` says; a pod goes for it only if nothing above is wrong. A node of which a label that is required changed less than ``after`` ago
    counts as one that meets it: what labels nodes may take its labels off for a moment. The hint that admission adds is no
    preference of the pod's owner.
    """

    name: str = "NodeAffinity"

    def __init__(self, args: NodeAffinityArgs) -> None:
        self.tier = Tier.HARD if REQUIRED in args.types else Tier.SOFT
        self._args = args
        self._scope = args.scope()
        self._after_s = args.after_s
        self._potential = ScorePotential(self._scope) if SCORE in args.types else None

    def candidates(self, view: PolicyView) -> Proposals:
        """Violations first, then pods by how much better a node could be."""
        found: list[Batch] = []
        for known in view.cluster.classes:
            if known.pods and self._scope.proposes(known) and self._looks_at(known, view):
                found.extend(self._remembered(known, view))
        if self._potential is not None:
            named = {pod.uid for batch in found for pod in batch.pods}
            least, asked = self._args.minimum_score_difference, self._scope.nodes(view.nodes)
            kinds = [known for known in view.cluster.classes if known.pods and self._scope.proposes(known)]
            for kind, pods, fall in self._potential.leavers(kinds, asked, round(least * _SCORED), view):
                message = (
                    f"kube-scheduler's scores fit another node better than {NODE}, by {fall / _SCORED:.0%}"
                )
                others = [pod for pod in pods if pod.uid not in named]
                if others:
                    found.append(
                        self._batch(kind, others, SCORED_ELSEWHERE, message, fall / _SCORED, least=least)
                    )
        return by_gain(found)

    def badness(self, view: PolicyView) -> IntArray:
        """Required affinity that is not met, preferred weights that are not, and the potential of all scores."""
        total = sum_of_costs(self._cost, view)
        if self._potential is not None:
            total[Tier.SOFT] += self._potential.badness(view)
        return total

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """The same there less the same here."""
        change = change_of_cost(self._cost, pod, replacement, view)
        if self._potential is not None:
            change = change + in_tier(Tier.SOFT, self._potential.change(pod, replacement, view))
        return change

    def _cost(self, kind: PodClass, nodes: NodeIndices | slice, view: PolicyView) -> CostRows:
        rows: list[tuple[Tier, IntArray]] = []
        if not self._scope.proposes(kind):
            return rows
        spec = kind.spec
        if REQUIRED in self._args.types and (spec.node_selector or spec.node_affinity):
            rows.append((Tier.HARD, (~self._met(spec, view)[nodes]).astype(np.int64)))
        terms = owners_terms(kind, view)
        if PREFERRED in self._args.types and terms:
            total = max(sum(term.weight for term in terms), 1)
            rows.append((Tier.SOFT, ONE * (total - preferred_weights(terms, view.nodes)[nodes]) // total))
        return rows

    def _looks_at(self, kind: PodClass, view: PolicyView) -> bool:
        spec = kind.spec
        return (REQUIRED in self._args.types and bool(spec.node_selector or spec.node_affinity)) or (
            PREFERRED in self._args.types and bool(owners_terms(kind, view))
        )

    def _remembered(self, known: PodClass, view: PolicyView) -> list[Batch]:
        """The candidates of a class depend on where its pods stand and on the nodes, on nothing else."""
        stamp = known.version, view.nodes.epoch, owners_terms(known, view), self._young(known.spec, view)
        return known.memo.of(self, stamp, lambda: self._of_class(known, view))

    def _of_class(self, known: PodClass, view: PolicyView) -> list[Batch]:
        spec, where = known.spec, known.where
        found: list[Batch] = []
        fits = np.ones(len(where), dtype=np.bool_)
        asked = self._scope.nodes(view.nodes)[where]
        if REQUIRED in self._args.types and (spec.node_selector or spec.node_affinity):
            fits = required_mask(spec, view.nodes)[where]
            unmet = asked & ~self._met(spec, view)[where]
            pods = [known.pods[i] for i in np.flatnonzero(unmet).tolist()]
            if pods:
                message = f"node/{NODE} does not meet its required node affinity"
                found.append(self._batch(known, pods, NOT_MET, message, 1))
        if PREFERRED in self._args.types and owners_terms(known, view):
            share, best = self._wishes(known, view)
            here = share[where]
            worse = np.flatnonzero(asked & fits & (best - here >= self._args.minimum_difference))
            pods_by_share: dict[float, list[Pod]] = {}
            for i, have in zip(worse.tolist(), here[worse].tolist(), strict=True):
                pods_by_share.setdefault(have, []).append(known.pods[i])
            for have, pods in pods_by_share.items():
                message = f"node/{NODE} meets {have:.0%} of its preferences, others {best:.0%}"
                least = self._args.minimum_difference
                found.append(
                    self._batch(known, pods, "PreferredMetElsewhere", message, best - have, least=least)
                )
        return found

    def _met(self, spec: PodSpec, view: PolicyView) -> BoolArray:
        """Nodes that meet what is required, or may have failed it for less than ``after``."""
        met, young = required_mask(spec, view.nodes), self._young(spec, view)
        if not young:
            return met
        found = met.copy()
        found[list(young)] = True
        return found

    def _young(self, spec: PodSpec, view: PolicyView) -> tuple[int, ...]:
        """Nodes of which a label that is required changed less than ``after`` ago."""
        recent = self._recent(view)
        if not recent:
            return ()
        keys = {key for key, _ in spec.node_selector}
        for term in spec.node_affinity.terms if spec.node_affinity is not None else ():
            keys.update(requirement.key for requirement in term.expressions)
        return tuple(sorted({node for key in keys for node in recent.get(key, ())}))

    def _recent(self, view: PolicyView) -> Mapping[str, list[int]]:
        """By label, the nodes on which it changed less than ``after`` ago. They change with the time, too."""
        snapshot, index = view.snapshot, view.state.node_index

        def find() -> Mapping[str, list[int]]:
            found: dict[str, list[int]] = {}
            for name, seen in snapshot.node_marks_since.items():
                for key in young_labels(seen, snapshot.taken_at_s, self._after_s) if name in index else ():
                    found.setdefault(key, []).append(index[name])
            return found

        stamp = id(snapshot), snapshot.taken_at_s
        return view.nodes.memo.of((self, "recent labels"), stamp, find)

    def _batch(
        self, known: PodClass, pods: list[Pod], reason: str, message: str, worse: float, *, least: float = 0.0
    ) -> Batch:
        """``worse``: by how many pods, at most 1, its node is worse than another; ``least``: so much better another one must be."""
        tier = Tier.HARD if reason == NOT_MET else Tier.SOFT
        unit = _SCORED if reason == SCORED_ELSEWHERE else UNITS[tier]
        return Batch.of(
            self.name, known, pods, why=(reason, message), tier=tier, falls=worse, unit=unit, least=least
        )

    def _wishes(self, kind: PodClass, view: PolicyView) -> tuple[FloatArray, float]:
        """The share of the preferred weights that each node meets, and the highest of nodes that may be targets."""
        spec, terms = kind.spec, owners_terms(kind, view)

        def find() -> tuple[FloatArray, float]:
            total = sum(preferred.weight for preferred in terms)
            share = preferred_weights(terms, view.nodes) / max(total, 1)
            reachable = required_mask(spec, view.nodes) & view.nodes.usable
            return share, float(share[reachable].max()) if reachable.any() else 0.0

        return view.memo.of((self, spec.node_selector, spec.node_affinity, terms), None, find)
