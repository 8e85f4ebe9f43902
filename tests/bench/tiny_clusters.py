"""Clusters so small that every plan can be tried."""

import itertools
import random

import numpy as np

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE


def tiny(seed):
    """Two to four small nodes, one pod for each of a few ReplicaSets and two or three of one that has a rule."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    nodes = [
        b.node(f"n{i}").zone("ab"[i % 2]).cpu(rng.choice(["2", "3"])).label(disk=rng.choice(["ssd", "hdd"]))
        for i in range(rng.randint(2, 4))
    ]
    objects = list(nodes)
    ruled = b.replicaset("ruled").cpu("500m")
    rule = rng.randrange(4)
    if rule == 0:
        ruled = ruled.apart(HOSTNAME, app="ruled")
    elif rule == 1:
        ruled = ruled.spread(ZONE, app="ruled")
    elif rule == 2:
        ruled = ruled.requires_node("disk", "ssd")
    free = {node.build().name: node.build().allocatable.cpu_milli for node in nodes}
    wanted = [(ruled, f"ruled-{i}", 500) for i in range(rng.randint(2, 3))]
    for i in range(rng.randint(1, 2)):
        size = rng.choice((500, 1000, 1500))
        wanted.append((b.replicaset(f"app{i}").cpu(f"{size}m"), f"app{i}-0", size))
    placed = []
    for owner, name, size in wanted:
        fit = [n for n, left in free.items() if left >= size]
        if fit:
            place = rng.choice(fit)
            free[place] -= size
            placed.append((owner, name, place))
    for owner, pods in itertools.groupby(placed, key=lambda found: found[0]):
        made = list(pods)
        objects.append(owner.replicas(len(made)))
        objects.extend(owner.pod(name).on(place) for _, name, place in made)
    return b.snapshot(objects)


def one_stage(placement):
    """Counts after every set of moves that may run at once."""
    pods = [
        (k, n)
        for k, n in zip(*np.nonzero(placement.start), strict=True)
        for _ in range(placement.start[k, n])
    ]
    nodes = range(len(placement.nodes))
    for targets in itertools.product(nodes, repeat=len(pods)):
        counts, arrived = np.zeros_like(placement.start), np.zeros_like(placement.start)
        for (k, n), target in zip(pods, targets, strict=True):
            counts[k, target] += 1
            arrived[k, target] += n != target
        if (arrived.astype(bool) & ~placement.allowed).any():
            continue
        if (placement.load(placement.start + arrived) > placement.capacity)[arrived.any(axis=0)].any():
            continue
        if follows_rules(placement, counts, arrived):
            yield counts, arrived


def follows_rules(placement, counts, arrived):
    for k, kind in enumerate(placement.kinds):
        if kind.apart and ((arrived[k] > 0) & (placement.start[k] + arrived[k] > 1)).any():
            return False
        if kind.max_skew:
            zones = np.bincount(placement.zones, weights=counts[k])
            coming = np.bincount(placement.zones, weights=arrived[k]) > 0
            if (coming & (zones - zones.min() > kind.max_skew)).any():
                return False
    return True
