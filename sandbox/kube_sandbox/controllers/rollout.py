"""The arithmetic of a rolling update: how large each ReplicaSet of a Deployment may be next. Pure.

Follows pkg/controller/deployment (rolling.go, sync.go): maxSurge bounds how many pods are added, maxUnavailable how
many are removed. During a rollout a change of ``replicas`` is spread over the ReplicaSets in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kube_sandbox.controllers.unstructured import Obj, meta, replicas_of, scaled_value, spec, status


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetSize:
    """The sizes of one ReplicaSet. ``created``: creation time, to sort by age."""

    name: str
    desired: int
    available: int
    created: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a rollout: the number of replicas, and how many pods above and below it."""

    replicas: int
    surge: int
    unavailable: int

    @property
    def at_most(self) -> int:
        """Most pods at once."""
        return self.replicas + self.surge

    @property
    def at_least(self) -> int:
        """Fewest available pods."""
        return self.replicas - self.unavailable


def bounds_of(deployment: Obj) -> Bounds:
    """Bounds as the strategy gives them; both zero becomes one unavailable (ResolveFenceposts)."""
    replicas = replicas_of(deployment)
    strategy = spec(deployment).get("strategy") or {}
    if strategy.get("type") == "Recreate" or replicas == 0:
        return Bounds(replicas, 0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas, surge, min(unavailable, replicas))


def size_of(rs: Obj) -> ReplicaSetSize:
    """The sizes of a ReplicaSet."""
    replicas = spec(rs).get("replicas")
    return ReplicaSetSize(
        name=meta(rs)["name"],
        desired=1 if replicas is None else int(replicas),
        available=int(status(rs).get("availableReplicas") or 0),
        created=str(meta(rs).get("creationTimestamp") or ""),
    )


def grown(new: ReplicaSetSize, old: Sequence[ReplicaSetSize], bounds: Bounds) -> int:
    """Replicas of the new ReplicaSet as far as the surge allows now (NewRSNewReplicas)."""
    if new.desired > bounds.replicas:
        return bounds.replicas
    room = bounds.at_most - new.desired - sum(o.desired for o in old)
    return min(new.desired + max(room, 0), bounds.replicas)


def shrunk(new: ReplicaSetSize, old: Sequence[ReplicaSetSize], bounds: Bounds) -> dict[str, int]:
    """New sizes of the old ReplicaSets that are scaled down now: unavailable pods first, then spare available ones."""
    everything = new.desired + sum(o.desired for o in old)
    spare = everything - bounds.at_least - (new.desired - new.available)
    if spare <= 0:
        return {}
    ordered = sorted(old, key=lambda o: (o.created, o.name))
    sizes = {o.name: o.desired for o in ordered}
    for one in ordered:
        cut = min(max(one.desired - one.available, 0), spare)
        sizes[one.name] -= cut
        spare -= cut
    healthy_spare = new.available + sum(o.available for o in old) - bounds.at_least
    for one in ordered:
        cut = min(sizes[one.name], max(healthy_spare, 0))
        sizes[one.name] -= cut
        healthy_spare -= cut
    return {o.name: sizes[o.name] for o in ordered if sizes[o.name] != o.desired}


def rescaled(
    new: ReplicaSetSize | None,
    old: Sequence[ReplicaSetSize],
    bounds: Bounds,
    former_most: Mapping[str, int],
) -> dict[str, int]:
    """Sizes after a change of ``replicas``. ``former_most``: replicas plus surge for which each size was computed."""
    everything = [*old, *([new] if new is not None else [])]
    active = [s for s in everything if s.desired > 0]
    if len(active) <= 1:
        target = active[0] if active else (new or max(everything, key=_age, default=None))
        return {} if target is None or target.desired == bounds.replicas else {target.name: bounds.replicas}
    if new is not None and new.desired == new.available == bounds.replicas:
        return {o.name: 0 for o in old if o.desired}
    room = (bounds.at_most if bounds.replicas else 0) - sum(s.desired for s in active)
    return _in_proportion(active, room, bounds, former_most)


def _in_proportion(
    active: Sequence[ReplicaSetSize], room: int, bounds: Bounds, former_most: Mapping[str, int]
) -> dict[str, int]:
    # As in sync.go: growth goes to the newest of equally large sets first, shrinking hits the oldest first, and what
    # rounding leaves over goes to the largest, so that the sum is exact.
    by_age = sorted(active, key=_age, reverse=room > 0)
    ordered = sorted(by_age, key=lambda s: -s.desired)
    sizes = {s.name: s.desired for s in ordered}
    added = 0
    for one in ordered:
        ideal = round(one.desired * bounds.at_most / (former_most.get(one.name) or bounds.at_most))
        share = ideal - one.desired
        left = room - added
        part = max(min(share, left), 0) if room > 0 else min(max(share, left), 0)
        sizes[one.name] += part
        added += part
    first = ordered[0].name
    sizes[first] = max(sizes[first] + room - added, 0)
    return {s.name: sizes[s.name] for s in ordered if sizes[s.name] != s.desired}


def _age(one: ReplicaSetSize) -> tuple[str, str]:
    return (one.created, one.name)
