"""One cycle of planning: the moves of a plan carried out in full, by the records of what comes back; and what must hold of it. Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rescheduler.model.holding import placed_on
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.avoid import entry_for, with_entry
from rescheduler.planning.badness import Badness, MoveEffect, by_policy
from rescheduler.planning.plan import Move, Plan, PolicySummary
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.objective import TIERS
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import IntArray, Profile
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.state import SchedulingState


class _Left(NamedTuple):
    """A pod left a node."""

    number: int
    """Of the move, counted over all cycles."""
    move: Move
    badness: tuple[int, ...]
    """Of the placement before the plan that moved it."""


class Been:
    """Where pods have been. A placement never comes back, but one pod may, once the moves of others have made it worth while."""

    def __init__(self) -> None:
        self.returns: list[str] = []
        self.after_others: list[str] = []
        self._left: dict[tuple[str, str], _Left] = {}
        self._number = 0

    def carried_out(self, cycle: int, made: Plan, badness: tuple[int, ...]) -> None:
        """The moves of a plan. ``badness``: of the placement before it."""
        for move in made.moves:
            pod = f"{move.pod.namespace}/{move.pod.name}"
            left = self._left.get((pod, move.target))
            if left is not None:
                others = self._number - left.number - 1
                worth = others > 0 and badness < left.badness
                found = self.after_others if worth else self.returns
                found.append(f"cycle {cycle}: {_return_words(move, left, others)}")
            self._left[pod, move.source] = _Left(self._number, move, badness)
            self._number += 1


def _return_words(move: Move, left: _Left, others: int) -> str:
    """Why it left, and why it returns: by policy, what either move changes."""
    before, now = (_effect_words(m) for m in (left.move, move))
    return f"{_words(move)} returns after {others} moves of others; it left for {before}, returns for {now}"


def _effect_words(move: Move) -> str:
    return ", ".join(f"{effect.policy} {effect.change.by_tier()}" for effect in move.effects)


def badness_of(cluster: Snapshot, policies: Sequence[Policy], state: SchedulingState) -> tuple[int, ...]:
    """The sum over the policies, by tier."""
    state.sync(cluster)
    view = PolicyView.of(cluster, state)
    total: IntArray = np.zeros(TIERS, dtype=np.int64)
    for policy in policies:
        total += policy.badness(view)
    return tuple(total.tolist())


def moved(cluster: Snapshot, made: Plan) -> Snapshot:
    """The cluster once all moves of a plan have been carried out."""
    replacements = Replacements(cluster)
    pods = dict(cluster.pods)
    for move in made.moves:
        key = ObjectKey(move.pod.namespace, move.pod.name)
        old = pods.pop(key)
        new = replacements.of(cluster.pods[key]).pod
        if new is None:
            raise LookupError(f"pod {key} was moved, and nothing comes back for it")
        landed = _landed(old, new, move.target)
        pods[landed.key] = landed
    return dataclasses.replace(cluster, pods=pods)


def hinted(cluster: Snapshot, made: Plan) -> Snapshot:
    """The nodes that pods left carry hints, which hold for as long as the course takes."""
    nodes, now_s = dict(cluster.nodes), cluster.taken_at_s
    for move in made.moves:
        owner = cluster.pods[ObjectKey(move.pod.namespace, move.pod.name)].controller
        if owner is not None:
            node = nodes[move.source]
            entry = entry_for(owner, move.pod.namespace, move.policy, now_s)
            nodes[move.source] = msgspec.structs.replace(node, avoid=with_entry(node.avoid, entry, now_s))
    return dataclasses.replace(cluster, nodes=nodes)


def swapped(made: Plan) -> Iterator[str]:
    """Pairs of moves of one owner's pods that go to and fro between two nodes."""
    ways: dict[tuple[object, ...], Move] = {}
    for move in made.moves:
        if move.controller is None:
            continue
        owner = (move.pod.namespace, move.controller.kind, move.controller.name)
        back = ways.get((*owner, move.target, move.source))
        if back is not None:
            yield f"{_words(move)} swaps with {_words(back)}"
        ways[(*owner, move.source, move.target)] = move


def _landed(old: Pod, new: Pod, node: str) -> Pod:
    named = msgspec.structs.replace(new, uid=old.uid, name=old.name, created_at_s=old.created_at_s)
    return placed_on(node, named, phase=old.phase, ready=True)


def _words(move: Move) -> str:
    return f"{move.pod.name} {move.source} -> {move.target} ({move.policy}, {move.reason})"


def wrong_sums(made: Plan) -> Iterator[str]:
    """Policies whose numbers before, with what the moves change, are not those after.

    Not asked where pending pods get rooms, nor of a policy with two entries: ``balance`` in a pool goes by the mean of the pool, which
    falls when pods leave it.
    """
    if any(room.node for room in made.rooms):
        return
    entries = Counter(summary.name for summary in made.before.policies)
    before, after = (_by_name(summary.policies) for summary in (made.before, made.after))
    change = by_policy(effect for move in made.moves for effect in move.effects)
    for name, badness in before.items():
        if entries[name] == 1 and badness + change.get(name, Badness()) != after[name]:
            yield f"{name}: {badness} and {change.get(name)} is not {after[name]}"


def _by_name(policies: Sequence[PolicySummary]) -> Mapping[str, Badness]:
    return by_policy(MoveEffect(policy.name, policy.badness) for policy in policies)


def company_broken(cluster: Snapshot, made: Plan, profile: Profile | None) -> Iterator[str]:
    """Pods that stay and break their required pod (anti-)affinity now, though no rule is repaired by the plan."""
    repaired = {move.pod.uid for move in made.moves if _repairs(move)}
    if not made.moves or repaired:
        return
    before, after = (_breaking(one, profile) for one in (cluster, moved(cluster, made)))
    gone = {move.pod.uid for move in made.moves}
    for uid, words in after.items():
        if uid not in before and uid not in gone:
            yield f"{words} breaks its required pod (anti-)affinity where it stands"


def _repairs(move: Move) -> bool:
    return any(effect.change.hard < 0 for effect in move.effects)


def _breaking(cluster: Snapshot, profile: Profile | None) -> dict[str, str]:
    """Pods that kube-scheduler's InterPodAffinity would refuse where they stand, by uid."""
    state, found = SchedulingState(cluster, profile), dict[str, str]()
    for pod in cluster.pods.values():
        social = pod.spec.pod_affinity or pod.spec.pod_anti_affinity
        if not social or pod.node not in state.node_index or pod.terminal or pod.deleting:
            continue
        mark = state.checkpoint()
        state.remove(pod)
        result = state.filter(msgspec.structs.replace(pod, node=""))
        code = int(result.refused_by[state.node_index[pod.node]])
        if code >= 0 and result.plugins[code] == InterPodAffinity.name:
            found[pod.uid] = str(pod.key)
        state.rollback(mark)
    return found


def untrue(before: Plan, made: Plan) -> Iterator[str]:
    """What the plan before said of the cluster after it, and is not so."""
    said, found = before.after, made.before
    for one, other in zip(said.policies, found.policies, strict=True):
        if one != other:
            yield f"after the plan before: {one}, and now: {other}"
    for node, now in zip(said.nodes, found.nodes, strict=True):
        if node != now:
            yield f"after the plan before: {node}, and now: {now}"
    counts = [
        (s.pods, s.pending_pods, s.empty_nodes, s.cpu_imbalance, s.memory_imbalance) for s in (said, found)
    ]
    if counts[0] != counts[1]:
        yield f"after the plan before: {counts[0]}, and now: {counts[1]}"
