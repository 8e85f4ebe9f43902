"""Our verdicts beside kube-scheduler's, and where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from harness.differential.clusters import Question
from harness.differential.manifests import Manifest
from harness.differential.program import Answer, NodeAnswer
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.configuration import parse_scheduler_configuration
from rescheduler.scheduling.framework import NodeVerdict, Profile
from rescheduler.scheduling.state import SchedulingState

NOT_JUDGED = "not judged"
_WITHOUT_DETAILS = ('running PreScore plugin "NodeAffinity"', 'running "NodeVolumeLimits" filter plugin')
"""Of several running pods whose volumes cannot be told, kube-scheduler names any."""
_ERROR = "Error:"
"""How the program marks a plugin that failed; whether evicting pods could help is then not said."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One pod on one node that is judged differently."""

    pod: str
    node: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.pod} on {self.node}:\n  ours   {self.ours}\n  theirs {self.theirs}"


@dataclass(slots=True)
class Tally:
    """How often what was decided, over all comparisons."""

    verdicts: int = 0
    feasible: int = 0
    not_judged: int = 0
    """Nodes on which devices would be allocated: we say that we do not judge them."""
    refused_by: Counter[str] = field(default_factory=Counter)
    scored_by: Counter[str] = field(default_factory=Counter)
    """Nodes with a score other than 0 and 100."""


def snapshot_of(objects: Iterable[Manifest]) -> Snapshot:
    """The manifests as the real decoder reads them."""
    decoder, state = Decoder(), ClusterState()
    for manifest in objects:
        kind = Kind(manifest["kind"])
        state.apply(kind, decoder.record(kind, msgspec.json.encode(manifest)))
    return state.snapshot(0.0)


def profile_of(question: Question) -> Profile:
    """The profile of the question's configuration."""
    if question.configuration is None:
        return Profile()
    return parse_scheduler_configuration(question.configuration)


def compare(question: Question, answer: Answer, tally: Tally) -> list[Difference]:
    """Where we differ; ``tally`` counts what kube-scheduler decided."""
    snapshot = snapshot_of(question.objects)
    state = SchedulingState(snapshot, profile_of(question))
    weights = dict(state.profile.weights)
    differences: list[Difference] = []
    for asked in answer.pods or ():
        pod = snapshot.pods[ObjectKey(*asked.pod.split("/"))]
        for verdict in state.explain(pod):
            theirs = asked.nodes[verdict.node]
            if any(refusal.reason.startswith(NOT_JUDGED) for refusal in verdict.refusals):
                tally.not_judged += 1
                continue
            _count(theirs, weights, tally)
            mine, other = _ours(verdict, weights, failed=theirs.plugin.startswith(_ERROR)), _theirs(theirs)
            if mine != other:
                differences.append(Difference(asked.pod, verdict.node, mine, other))
    return differences


def _ours(verdict: NodeVerdict, weights: dict[str, int], *, failed: bool) -> str:
    if verdict.feasible:
        scores = {name: points * weights[name] for name, points in verdict.scores}
        return f"feasible {sorted(scores.items())} total {verdict.score}"
    plugin = verdict.refusals[0].plugin
    reasons = sorted(_words(refusal.reason) for refusal in verdict.refusals)
    unresolvable = any(refusal.unresolvable for refusal in verdict.refusals)
    return f"{plugin} {reasons} {'error' if failed else f'unresolvable={unresolvable}'}"


def _theirs(answer: NodeAnswer) -> str:
    if answer.feasible:
        return f"feasible {sorted(answer.scores.items())} total {answer.total}"
    reasons = sorted(map(_words, answer.reasons))
    if answer.plugin.startswith(_ERROR):
        return f"{answer.plugin.removeprefix(_ERROR)} {reasons} error"
    return f"{answer.plugin} {reasons} unresolvable={answer.unresolvable}"


def _words(reason: str) -> str:
    """The reason, without details that name places in the manifest or are left to chance."""
    return next((start for start in _WITHOUT_DETAILS if reason.startswith(start)), reason)


def _count(answer: NodeAnswer, weights: dict[str, int], tally: Tally) -> None:
    tally.verdicts += 1
    if not answer.feasible:
        tally.refused_by[answer.plugin.removeprefix(_ERROR)] += 1
        return
    tally.feasible += 1
    for name, points in answer.scores.items():
        if points not in (0, 100 * weights.get(name, 1)):
            tally.scored_by[name] += 1
