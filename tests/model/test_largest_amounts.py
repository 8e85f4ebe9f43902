"""Amounts near the largest that the API allows: sums over a node stay numbers that a 64 bit integer can hold."""

from hypothesis import given
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.model.resources import MOST, bounded, parse_resources
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.state import SchedulingState

LARGE = st.sampled_from(["9223372036854775807", "9E", "8Ei", "1e18", "7Ei", "281474976710656", "1Ti", "0"])


@given(LARGE, LARGE, LARGE)
def test_no_amount_is_above_the_largest(cpu, memory, gpus):
    found = bounded(parse_resources({"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpus}))
    assert all(0 <= amount <= MOST for _, amount in found.items())


def test_a_full_node_does_not_look_empty_because_its_sum_overflows():
    web = b.replicaset("web").cpu("1").memory("7Ei").replicas(40)
    pods = [web.pod(f"web-{n}").on("n1") for n in range(40)]
    other = b.pod("other").cpu("1").memory("1Gi")
    snapshot: Snapshot = b.snapshot([b.node("n1").cpu("100").memory("8Ei")], [web, *pods, other])
    state = SchedulingState(snapshot)
    pod = next(pod for pod in snapshot.pods.values() if pod.name == "other")
    (verdict,) = state.explain(pod)
    assert not verdict.feasible
    assert "Insufficient memory" in {refusal.reason for refusal in verdict.refusals}
    assert int(state.requested("memory")[0]) > 0
