"""Where a pod goes among nodes that are equally good for the whole."""

import numpy as np

from harness import builders as b
from rescheduler.planning.targets import Target, Targets, TargetWish
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import PolicyView
from rescheduler.scheduling.state import SchedulingState


def test_of_equal_nodes_the_one_is_taken_that_kube_scheduler_would_choose():
    rs = b.replicaset("w").cpu("1")
    nodes = [
        b.node("n0").cpu("4"), b.node("large").cpu("8"), b.node("small").cpu("2"), b.node("tiny").cpu("1m"),
    ]  # fmt: skip
    snapshot = b.snapshot(nodes, rs, rs.pod("w-0").on("n0"))
    state = SchedulingState(snapshot)
    view = PolicyView.of(snapshot, state)
    trial = Trial(snapshot, view, set())
    (pod,) = snapshot.pods.values()
    found = Targets(trial).choose(
        TargetWish(pod, pod, np.ones(4), Objective((), view).change(pod, pod), reason="R", in_group=True)
    )
    assert isinstance(found, Target)
    assert found.node == "large"
