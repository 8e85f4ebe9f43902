"""What kube-scheduler's scores ask of a whole placement: one number that falls whenever pods stand better by them.

kube-scheduler scores one pod against the feasible nodes of a moment, normalised over these, so a sum of scores would rise and
fall with what else is feasible, and moves that each gain in score can go round in a circle. Here each scoring plugin has a
part that is a function of where pods stand, in millionths (``objective.ONE``) of a pod, by the weights of the profile:

- TaintToleration: per pod, its untolerated PreferNoSchedule taints, as a share of the most that any node has;
- NodeAffinity: per pod, the preferred weight that its node does not meet, as a share of the most that any node meets. The
  hint that admission adds is left out;
- PodTopologySpread: the excess of soft constraints, the profile's defaults included;
- InterPodAffinity: pairs of pods by preferred terms, each with its weight out of 100, affinity below 0;
- NodeResourcesFit and NodeResourcesBalancedAllocation: per node, by the shares that are requested; see ``node_shares``.

Images, volumes and devices have no part: they are where they are, or differ by claim. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rescheduler.model.records import Pod, SpreadConstraint
from rescheduler.model.selectors import LabelSelector
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.node_shares import change_on_nodes, cost_of_nodes, unit
from rescheduler.policies.objective import Tier
from rescheduler.policies.owners_wishes import owners_terms
from rescheduler.policies.pod_costs import CostRows, change_of_cost, sum_of_costs
from rescheduler.policies.spread_groups import SpreadGroups
from rescheduler.policies.term_pairs import changes_in_pairs, pairs_of
from rescheduler.policies.wire import Scope
from rescheduler.scheduling.classes import PodClass, TermCount, TermKind
from rescheduler.scheduling.framework import MAX_NODE_SCORE, IntArray, NodeIndices, Profile
from rescheduler.scheduling.node_affinity import preferred_weights
from rescheduler.scheduling.pod_topology_spread import constraints_of
from rescheduler.scheduling.taint_toleration import untolerated_wishes

_SOCIAL: Final = frozenset({TermKind.PREFERRED, TermKind.PREFERRED_ANTI, TermKind.REQUIRED})


class ScorePotential:
    """The potential of all scores of one profile, for the pods of one scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def badness(self, view: PolicyView) -> int:
        """Of the whole placement."""
        cluster = view.cluster
        of_pods = int(sum_of_costs(self._cost, view)[Tier.SOFT])
        of_nodes = int(cost_of_nodes(view).sum())
        of_pairs = sum(
            self._per_pair(term, cluster.profile) * pairs_of(term, view)
            for term in list(cluster.carried_terms)
            if term.key.kind in _SOCIAL
        )
        _, excess = self._groups(view).excess()
        return of_pods + of_nodes + of_pairs + excess * unit(cluster.profile, "PodTopologySpread")

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """What a move to each node changes; 0 for the pod's own node. Shape (nodes,)."""
        cluster, here = view.cluster, view.state.node_index[pod.node]
        alone = change_of_cost(self._cost, pod, replacement, view)
        change: IntArray = alone[Tier.SOFT] + change_on_nodes(pod, replacement, view)
        for pairs in changes_in_pairs(pod, cluster.kind_of(replacement), _SOCIAL, view):
            change += self._per_pair(pairs.term, cluster.profile) * pairs.by_node
        per_pod = unit(cluster.profile, "PodTopologySpread")
        for excess in self._groups(view).changes(pod, replacement, view):
            change += per_pod * excess.by_node
        change[here] = 0
        return change

    def _cost(self, kind: PodClass, nodes: NodeIndices | slice, view: PolicyView) -> CostRows:
        """TaintToleration and NodeAffinity of one pod."""
        rows: list[tuple[Tier, IntArray]] = []
        if not self._scope.proposes(kind):
            return rows
        table, profile = view.nodes, view.cluster.profile
        taints = untolerated_wishes(kind.spec.tolerations, table)
        most = int(taints.max(initial=0))
        if most:
            rows.append((Tier.SOFT, unit(profile, "TaintToleration") * taints[nodes] // most))
        terms = profile.added_affinity_preferred + owners_terms(kind, view)
        met = preferred_weights(terms, table)
        best = int(met.max(initial=0)) if terms else 0
        if best:
            rows.append((Tier.SOFT, unit(profile, "NodeAffinity") * (best - met[nodes]) // best))
        return rows

    def _per_pair(self, term: TermCount, profile: Profile) -> int:
        whole = unit(profile, "InterPodAffinity")
        match term.key.kind:
            case TermKind.PREFERRED_ANTI:
                return whole * term.key.weight // MAX_NODE_SCORE
            case TermKind.PREFERRED:
                return -(whole * term.key.weight // MAX_NODE_SCORE)
            case TermKind.REQUIRED:
                return -(whole * profile.hard_pod_affinity_weight // MAX_NODE_SCORE)
            case TermKind.REQUIRED_ANTI:
                return 0

    def _groups(self, view: PolicyView) -> SpreadGroups:
        cluster = view.cluster

        def wanted(kind: PodClass) -> Sequence[tuple[SpreadConstraint, LabelSelector | None]]:
            return constraints_of(kind, cluster, hard=False) if self._scope.proposes(kind) else ()

        return SpreadGroups.of(self, view, wanted)
