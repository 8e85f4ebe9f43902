"""A decision begins its moves first and counts who stays afterwards, whatever beginning them comes to."""

import pytest

from harness import builders as b
from rescheduler.configuration.document import Configuration
from rescheduler.configuration.policies_section import ConfiguredPolicy
from rescheduler.controller.crashes import CrashReports
from rescheduler.controller.cycle import Cycle
from rescheduler.controller.issuing import Issue
from rescheduler.controller.metrics import Metrics
from rescheduler.kube.transport import TransportError
from rescheduler.planning.limits import Limits
from rescheduler.policies.node_taints import NodeTaintsArgs
from rescheduler.scheduling.state import SharedSchedulingState

CONFIGURATION = Configuration(
    limits=Limits(moves_at_once=1), policies=(ConfiguredPolicy(name="NodeTaints", args=NodeTaintsArgs()),)
)


def staying(metrics):
    lines = metrics.render().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("rescheduler_moves_blocked{"))


class Issuer:
    """Notes how many pods were counted when the moves began."""

    def __init__(self, metrics, *, away):
        self.metrics, self.away, self.begun, self.counted = metrics, away, (), None

    def issue(self, moves, order, now_s):
        self.begun, self.counted = moves, staying(self.metrics)
        if self.away:
            return Issue(error=TransportError("connection refused"))
        return Issue(keys=tuple(move.pod.uid for move in moves))


@pytest.fixture
def cluster(app):
    return b.snapshot(b.node("n1").taint("old"), b.node("n2"), b.node("n3"), app("web", ["n1"] * 3))


@pytest.mark.parametrize("away", [False, True])
def test_moves_begin_before_those_who_stay_are_counted(cluster, away):
    metrics = Metrics()
    issuer = Issuer(metrics, away=away)
    cycle = Cycle(issuer=issuer, metrics=metrics, states=SharedSchedulingState(), crashes=CrashReports())
    decision = cycle.run(cluster, CONFIGURATION, gate_ready=True)
    assert len(decision.issued) == (0 if away else 1)
    assert len(issuer.begun) == 1
    assert issuer.counted == 0
    assert staying(metrics) == 2


def test_without_a_gate_nothing_begins_and_everything_is_counted(cluster):
    metrics = Metrics()
    issuer = Issuer(metrics, away=False)
    cycle = Cycle(issuer=issuer, metrics=metrics, states=SharedSchedulingState(), crashes=CrashReports())
    decision = cycle.run(cluster, CONFIGURATION, gate_ready=False)
    assert issuer.begun == ()
    assert decision.issued == ()
    assert staying(metrics) == 3
