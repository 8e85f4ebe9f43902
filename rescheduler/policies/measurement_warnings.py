"""What a plan says of measured usage that is not there: of nodes, of pods, and of all pods. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescheduler.model.counted import plural, verb
from rescheduler.policies.framework import PolicyView, PolicyWarning
from rescheduler.policies.measurement import unmeasured, unsettled, warning
from rescheduler.scheduling.framework import BoolArray


def measurement_warnings(policy: str, view: PolicyView, overloaded: BoolArray) -> Iterator[PolicyWarning]:
    """``overloaded``: the nodes that pods are to leave."""
    found = unmeasured(view.snapshot, view.state.node_names)
    said = f"{policy} with usage: actual"
    if found.nodes:
        yield PolicyWarning(warning(policy, found), found)
    if anew := unsettled(view.snapshot, view.state.node_names):
        yield PolicyWarning(
            f"{said} leaves out {plural(anew, 'node')} that "
            f"{verb(anew, 'was', 'were')} measured too seldom since the start or the last move there, or not for all of usage.window"
        )
    if not overloaded.any():
        return
    if view.snapshot.pod_usage is None:
        yield PolicyWarning(
            f"{said} shares the usage of nodes out to their pods by requests, because no pod is measured: which of them carries the "
            "load is not known. Check kubectl top pods -A, and that pods of metrics.k8s.io may be listed"
        )
    elif pods := _unmeasured_pods(view, overloaded):
        yield PolicyWarning(
            f"{said} leaves {plural(pods, 'pod')} on overloaded nodes alone, because {verb(pods, 'it is', 'they are')} not measured"
        )


def _unmeasured_pods(view: PolicyView, overloaded: BoolArray) -> int:
    columns, usage = view.columns, view.snapshot.pod_usage
    rows = np.flatnonzero(overloaded[columns.nodes]).tolist()
    movable = [columns.pods[i] for i in rows if not columns.classes[columns.kinds[i]].belongs_to_node]
    if usage is None:
        return 0
    return int(np.count_nonzero(np.isnan(usage.column((pod.key for pod in movable), "cpu"))))
