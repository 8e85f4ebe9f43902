"""What a plan says of pods without CPU or memory requests, where a policy judges nodes by requests. Pure.

Nothing tells what such pods use. So a node that is full of them may look empty, and a person must know what it was judged by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np

from rescheduler.model.counted import plural, verb
from rescheduler.policies.framework import PolicyView, PolicyWarning
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.resource_scores import scored_use

_DEFAULTS: Final = {"cpu": "100m", "memory": "200Mi"}


def missing_requests(
    policy: str,
    view: PolicyView,
    nodes: BoolArray,
    resources: Collection[str],
    *,
    defaults: bool,
    or_else: str = "",
) -> Iterator[PolicyWarning]:
    """One sentence about the pods on these nodes that could move, of whose containers one requests nothing of a resource.

    ``defaults``: they count with kube-scheduler's defaults; else as nothing. ``or_else``: what helps besides requests.
    """
    cluster = view.cluster
    counted = [
        r
        for r in _DEFAULTS
        if r in resources and not np.array_equal(scored_use(cluster, r), cluster.requested(r))
    ]
    missing: set[str] = set()
    pods, on = 0, np.zeros(nodes.size, dtype=np.bool_)
    for kind in cluster.classes if counted else ():
        if not kind.pods or kind.belongs_to_node:
            continue
        lacks = [
            r for r in counted if held_amount(kind, r, defaults=True) > held_amount(kind, r, defaults=False)
        ]
        where = kind.where[nodes[kind.where]] if lacks else ()
        if len(where):
            missing.update(lacks)
            pods += len(where)
            on[where] = True
    if pods:
        names = [r for r in counted if r in missing]
        each = f"{' and '.join(_DEFAULTS[r] for r in names)} each, as in kube-scheduler's scores"
        yield PolicyWarning(
            f"{policy} does not know what {plural(pods, 'pod')} on {plural(int(on.sum()), 'node')} "
            f"{verb(pods, 'uses', 'use')}: containers that request no {' or '.join(names)} count as "
            f"{each if defaults else 'nothing'}. Set requests{'' if defaults else ', useDefaultRequests: true'}{or_else}"
        )
