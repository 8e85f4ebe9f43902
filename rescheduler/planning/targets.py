"""Where one pod goes: where the whole gets best, then by the scheduler's own points, then the name. Refusals are values.

Interchangeable pods are tried once: that no node takes a class is remembered until the next round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rescheduler.model.counted import plural
from rescheduler.model.migration import MoveMode
from rescheduler.model.records import Pod
from rescheduler.model.resources import Resources
from rescheduler.planning.avoid import holds
from rescheduler.planning.badness import MoveEffect
from rescheduler.planning.placeholder_rules import PLUGIN
from rescheduler.planning.plan import Blocked, SkipReason
from rescheduler.planning.platforms import PLATFORM_LABELS
from rescheduler.planning.priorities import MOST_ASKED, behind_lower_priority
from rescheduler.planning.required_affinity import Required
from rescheduler.planning.single_pod import SOME_UNFIT, UNFIT, needed_by
from rescheduler.planning.total_change import TotalChange
from rescheduler.planning.transient_pods import Relying
from rescheduler.planning.trial import Trial
from rescheduler.policies.objective import Tier, best, falls
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

_HINTS = 4
"""Refusing plugins that a message names."""


class Target(NamedTuple):
    """A node for a replacement, and what the move gains."""

    node: str
    gain: float
    change: IntArray
    """Of the badness of the whole, shape (tiers,)."""
    mode: MoveMode = MoveMode.RESERVE_FIRST
    effects: tuple[MoveEffect, ...] = ()
    """The same by policy."""
    unadopted: Pod | None = None
    """In mode StartFirst: the replacement as it is created."""


class TargetWish(NamedTuple):
    """What a target is looked for."""

    pod: Pod
    replacement: Pod
    gains: FloatArray
    """By node; nodes at or below 0 are no better."""
    change: TotalChange
    """What a move changes for all policies together."""
    least_gain: float = 0.0
    reason: str = ""
    in_group: bool = False
    """True: the change of the whole group counts, not that of this move, which must get better else."""
    unadopted: Pod | None = None
    """The replacement as mode StartFirst creates it, which must fit beside the old pod as well; None in mode ReserveFirst."""

    def at(self, nodes: IntArray | int) -> TargetWish:
        """The same for these nodes (indices) only."""
        only = np.zeros_like(self.gains)
        only[nodes] = self.gains[nodes]
        return self._replace(gains=only)


class Targets:
    """Chooses targets in one trial."""

    def __init__(self, trial: Trial, *, told: bool = False) -> None:
        """``told``: refusals are read by people, so they say more."""
        self._trial = trial
        self._refused: dict[tuple[object, ...], Blocked] = {}
        self._alive: list[Pod] = []
        self._behind: dict[tuple[object, ...], str] = {}
        self._kept: list[Pod] = []
        """Keys hold identities: their objects must live as long."""
        self._left_to_ask = MOST_ASKED if told else 0
        self._last_with_room: dict[Resources, tuple[int, int]] = {}
        """By request: a node with room for it, -1 if there is none, and at which version of the cluster that was so."""

    def forget(self) -> None:
        """Moves may have opened ways: try every class again."""
        self._refused.clear()
        self._alive.clear()

    def known_refusal(self, pod: Pod, replacement: Pod, unadopted: Pod | None = None) -> Blocked | None:
        """Why no node at all takes it, whatever a move would gain, as far as that is known or costs nothing to find out."""
        kind = self.kind(pod, replacement, unadopted)
        known = self._refused.get(kind) or self._refused.get((*kind, pod.node))
        if known is not None or self._has_room(replacement):
            return known
        message = f"no node has room for its replacement{self._behind_others(pod, replacement)}"
        found = self._refused[kind] = Blocked(SkipReason.NO_TARGET, message, "NodeResourcesFit")
        self._alive.extend((pod, replacement))
        return found

    def choose(self, wish: TargetWish) -> Target | Blocked:
        """The best node, or why there is none, for a pod without a ``known_refusal``."""
        pod, replacement, unadopted = wish.pod, wish.replacement, wish.unadopted
        if not (wish.gains > 0).any():
            return self._none_better(wish, None)
        trial = self._trial
        if swaps := trial.planned.left_for(trial.state.node_index[pod.node], pod):
            gains = wish.gains.copy()
            gains[swaps] = 0.0
            wish = wish._replace(gains=gains)
        fitting = self._fitting(wish)
        if isinstance(fitting, Blocked):
            return fitting
        allowed, required = fitting
        wish.change.settle()
        refused: Blocked | None = None
        while refused is None or allowed.any():
            with trial.without(pod):
                found = self._choose(wish, allowed, required)
                if not isinstance(found, Target):
                    break
                relies = trial.leaning_on(pod, replacement, found.node)
                higher = trial.taken_at(replacement, found.node)
            # These are asked only about the node that would be chosen: they cost much and refuse rarely.
            if relies is not None:
                refused = _needed_by(relies)
            elif higher is not None:
                refused = Blocked(SkipReason.NO_TARGET, higher.message, str(higher.pod.key))
            elif unadopted is None or trial.starts_beside(unadopted, found.node):
                return found
            allowed[trial.state.node_index[found.node]] = False
        return refused or found

    def _fitting(self, wish: TargetWish) -> tuple[BoolArray, Required | None] | Blocked:
        """The nodes that take the pod, and who requires it near; or why none does that gains anything, whatever a move changes."""
        trial, pod, replacement, unadopted = self._trial, wish.pod, wish.replacement, wish.unadopted
        # Bound before the old pod ends, it must fit beside that; and it must be able to stay once that is gone.
        beside = None if unadopted is None else trial.targets_beside(pod, unadopted)
        with trial.without(pod):
            if beside is None:
                fits = trial.feasible_targets(pod, replacement)
            else:
                fits = beside & trial.may_stay(replacement)
            if not fits.any():
                found = self._explained(pod, replacement)
            else:
                required = trial.required_near(pod, replacement)
                if required is not None or (fits & (wish.gains > 0)).any():
                    return fits, required
                found = self._none_better(wish, fits)
        if found.reason is SkipReason.NO_TARGET:
            self._remember(pod, replacement, unadopted, found)
        return found

    @staticmethod
    def _none_better(wish: TargetWish, fits: BoolArray | None) -> Blocked:
        """``fits``: the nodes that take the pod, none of which gains anything; None: no node at all would gain anything."""
        if wish.in_group:
            # Its gain is that of the group, on every node that the policy lets receive it.
            words = f"no node that {wish.reason} fills has room for it"
            if fits is not None:
                words = f"{plural(int(np.count_nonzero(fits)), 'node')} would take it, {wish.reason} fills none of them"
        elif fits is None:
            words = f"no other node would be better for {wish.reason} than node/{wish.pod.node}"
        else:
            taking = plural(int(np.count_nonzero(fits)), "node")
            words = f"{taking} would take it, none is better for {wish.reason} than node/{wish.pod.node}"
        return Blocked(SkipReason.NO_BETTER_TARGET, words, "")

    def _choose(self, wish: TargetWish, allowed: BoolArray, required: Required | None) -> Target | Blocked:
        """Of the nodes ``allowed``, which take it; ``required``: a pod that stays and requires it near. Meanwhile the pod is off its node."""
        pod, gains, feasible_targets = wish.pod, wish.gains, allowed.copy()
        number = int(np.count_nonzero(feasible_targets))
        if required is not None:
            feasible_targets &= required.nodes | (wish.change.total[Tier.HARD] < 0)
            if not feasible_targets.any():
                by = f"{required.by.namespace}/{required.by.name}"
                words = f"{number} nodes would take it, but pod {by} requires it near (required pod affinity)"
                return Blocked(SkipReason.NO_BETTER_TARGET, words, by)
        fit: BoolArray = feasible_targets & (gains > 0)
        if not fit.any():
            return self._none_better(wish, feasible_targets)
        if not wish.in_group:
            better = fit & falls(wish.change.total)
            if not better.any():
                return wish.change.refusal(fit)
            fit = better
        same, other = self._avoided(pod, fit, wish.reason)
        fit &= ~same
        if not fit.any():
            names = ", ".join(self._trial.state.node_names[i] for i in np.flatnonzero(same)[:_HINTS])
            return Blocked(SkipReason.AVOIDED, f"it was moved away from {names} for the same reason", names)
        most = float(gains[fit].max())
        if most < wish.least_gain:
            message = f"the best move gains {most:.3f}, less than {wish.least_gain:.3f}"
            return Blocked(SkipReason.GAIN_TOO_SMALL, message, "minimumGain")
        node = self._best(wish, fit & (gains >= wish.least_gain), other)
        mode = MoveMode.RESERVE_FIRST if wish.unadopted is None else MoveMode.START_FIRST
        change = wish.change.total[:, node].copy()
        name = self._trial.state.node_names[node]
        return Target(name, float(gains[node]), change, mode, wish.change.effects(node), wish.unadopted)

    def _remember(self, pod: Pod, replacement: Pod, unadopted: Pod | None, why: Blocked) -> Blocked:
        """Remember that no node takes pods like this one; those of other nodes may go where it stands."""
        kind = self.kind(pod, replacement, unadopted)
        self._refused[(*kind, pod.node) if self.takes_another(pod, replacement) else kind] = why
        self._alive.extend((pod, replacement))  # keys hold identities: their objects must live as long
        return why

    def allowed(self, pod: Pod, replacement: Pod, reason: str) -> BoolArray:
        """Nodes that would take it now by all rules and that are not to be avoided for this reason, whatever a move gains."""
        with self._trial.without(pod):
            found = self._trial.feasible_targets(pod, replacement)
            same, _ = self._avoided(pod, found, reason)
        return found & ~same

    def takes_another(self, pod: Pod, replacement: Pod) -> bool:
        """True if the node of the pod takes one more of its kind."""
        here = self._trial.state.node_index[pod.node]
        return bool(self._trial.view.nodes.usable[here]) and self._trial.state.feasible_at(replacement, here)

    def kind(self, pod: Pod, replacement: Pod, unadopted: Pod | None = None) -> tuple[object, ...]:
        """The same for pods that all nodes treat alike. It holds identities: both pods must live as long as it is used."""
        spec, old = replacement.spec, pod.spec
        social = bool(spec.spread or spec.pod_affinity or spec.pod_anti_affinity or old.pod_anti_affinity)
        claims = pod.name if spec.volumes else ""
        where = self._trial.state.node_index[pod.node] if social else -1
        beside = unadopted is not None
        elsewhere = self._trial.kind(pod)
        return pod.namespace, id(spec), id(old), id(replacement.labels), where, claims, beside, elsewhere

    def _has_room(self, replacement: Pod) -> bool:
        """Asked of one node that had room, and of all only if that has none any more."""
        # Planned moves only take room, so a node that had some is the first to ask, and "none" holds for the version.
        requests, moment = replacement.spec.requests, self._trial.version
        known = self._last_with_room.get(requests)
        if known is not None:
            node, then = known
            if then == moment or (node >= 0 and self._trial.has_free_resources(replacement, node)):
                return node >= 0
        found = np.flatnonzero(self._trial.with_free_resources(replacement))
        node = int(found[0]) if len(found) else -1
        self._last_with_room[requests] = node, moment
        return node >= 0

    def _explained(self, pod: Pod, replacement: Pod) -> Blocked:
        """Which of the scheduler's rules refuse most nodes."""
        state = self._trial.state
        result = state.filter(replacement)
        if result.everywhere is not None:
            return Blocked(SkipReason.NO_TARGET, result.everywhere.reason, result.everywhere.plugin)
        counted = result.counts()
        held = self._trial.takes_holder(pod, replacement)
        kept_off = 0 if held is None else int(np.count_nonzero(result.feasible & ~held))
        if kept_off:
            words = f"of {plural(kept_off, 'node')} that would take its replacement, pods there keep off its placeholder"
            return Blocked(SkipReason.NO_TARGET, f"{words} (required anti-affinity)", PLUGIN)
        fitting = result.feasible & self._trial.view.nodes.usable
        closed = _without(fitting, self._trial.platforms.allowed(pod, replacement))
        if closed.any():
            why = self._trial.platforms.refusal(pod, closed)
            return Blocked(SkipReason.NO_TARGET, _would_take(closed, why), PLATFORM_LABELS[0])
        closed = _without(fitting, self._trial.refused.allowed(pod))
        if closed.any():
            why, names = self._trial.refused.refusal(pod, closed)
            return Blocked(SkipReason.BACKOFF, _would_take(closed, why), names)
        others = result.feasible.copy()
        others[state.node_index[pod.node]] = False
        waiting = others & fitting & ~self._trial.with_free_resources(replacement)
        if not counted and not waiting.any():
            return Blocked(SkipReason.NO_TARGET, UNFIT, "")
        total = len(state.node_names)
        text, first = who_refuses(counted)
        unfit = others & ~self._trial.view.nodes.usable
        if unfit.any():
            text += f"; {plural(int(np.count_nonzero(unfit)), 'node')} {SOME_UNFIT}"
        if waiting.any():
            later = f"{plural(int(np.count_nonzero(waiting)), 'node')} will have room once other moves have landed"
            text = f"{text}; {later}" if text else later
        text += self._behind_others(pod, replacement)
        return Blocked(
            SkipReason.NO_TARGET, f"none of {plural(total, 'node')} takes its replacement: {text}", first
        )

    def _behind_others(self, pod: Pod, replacement: Pod) -> str:
        """What is added to a message where pods of lower priority hold the room; "" after it was asked often enough."""
        key = self.kind(pod, replacement), pod.node, self._trial.version
        known = self._behind.get(key)
        if known is None and self._left_to_ask:
            self._left_to_ask -= 1
            known = behind_lower_priority(self._trial.state, self._trial.snapshot, replacement, pod.node)
            self._behind[key] = known
            self._kept.extend((pod, replacement))
        return known or ""

    def _avoided(self, pod: Pod, fit: BoolArray, reason: str) -> tuple[BoolArray, BoolArray]:
        """Of the fitting nodes: those to avoid for the same reason, and those to take last."""
        nodes, now_s = self._trial.view.nodes, self._trial.snapshot.taken_at_s
        same, other = np.zeros_like(fit), ~nodes.healthy
        uid = pod.controller.uid if pod.controller is not None else ""
        for i in nodes.hinted:
            if fit[i]:
                found = holds(nodes.records[i].avoid, pod.namespace, uid, now_s)
                reasons = {entry.reason for entry in found}
                same[i] = reason in reasons
                other[i] |= bool(reasons)
        return same, other

    def _best(self, wish: TargetWish, fit: BoolArray, last: BoolArray) -> int:
        first = fit & ~last
        nodes = np.flatnonzero(first if first.any() else fit)
        nodes = nodes[best(wish.change.total, nodes)]
        # Else the scheduler's points would send pods to the emptiest node, which they would have to leave again.
        emptying = wish.change.total[Tier.EMPTYING][nodes]
        nodes = nodes[emptying == emptying.min()]
        if len(nodes) > 1:
            points = self._trial.state.totals(wish.replacement, nodes)
            nodes = nodes[points == points.max()]
        return int(nodes[self._trial.view.nodes.ranks[nodes].argmin()])


def who_refuses(counted: Mapping[str, int]) -> tuple[str, str]:
    """Which plugins refuse most nodes, in words, and the first of them; "": none does. ``counted``: by plugin, how many it refuses."""
    most = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:_HINTS]
    text = ", ".join(f"{plugin} refuses {number}" for plugin, number in most)
    return text, most[0][0] if most else ""


def _needed_by(relying: Relying) -> Blocked:
    return Blocked(SkipReason.NO_TARGET, needed_by(relying), str(relying.move.pod.key))


def _without(fitting: BoolArray, allowed: BoolArray | None) -> BoolArray:
    """The fitting nodes that are not allowed; ``allowed`` None: all are."""
    return np.zeros_like(fitting) if allowed is None else fitting & ~allowed


def _would_take(nodes: BoolArray, why_not: str) -> str:
    return f"{plural(int(np.count_nonzero(nodes)), 'node')} that would take its replacement {why_not}"
