"""Required affinity, judged at once for every subset of pods that come and go, beside the rule asked for each subset."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.lasting_affinity import TransientPod, lasting_affinity
from rescheduler.scheduling.state import SchedulingState

PLACES = ("n0", "n1", "n2", "n3", "n4")


@st.composite
def questions(draw):
    """(snapshot, pod, names of pods that may be there or not); some nodes lack a topology key."""
    nodes = []
    for i, name in enumerate(PLACES):
        node = b.node(name)
        if draw(st.integers(0, 5)):
            node = node.zone("ab"[i % 2])
        if draw(st.integers(0, 5)):
            node = node.label({"rack": "xyz"[i % 3]})
        nodes.append(node)
    pods, passing = [], []
    for i in range(draw(st.integers(0, 5))):
        pod = b.pod(f"p{i}").on(draw(st.sampled_from(PLACES)))
        pod = pod.label(app=draw(st.sampled_from(["a", "a", "b"])), tier=draw(st.sampled_from(["x", "y"])))
        kind = draw(st.sampled_from(["stays", "passes", "ends"]))
        pods.append(pod.deleting() if kind == "ends" else pod)
        if kind != "stays":
            passing.append(f"p{i}")
    asked = b.pod("asked").label(app=draw(st.sampled_from(["a", "b"])), tier="x")
    asked = asked.near(draw(st.sampled_from([ZONE, "rack", HOSTNAME])), app="a")
    if draw(st.booleans()):
        asked = asked.near(draw(st.sampled_from([ZONE, "rack"])), tier="x")
    return b.snapshot(*nodes, *pods), asked.build(), passing


@settings(max_examples=150, deadline=None)
@given(question=questions(), outside=st.sets(st.integers(0, 4)))
def test_it_is_what_every_subset_of_the_passing_pods_leaves(question, outside):
    """``outside``: numbers of transient pods that the cluster does not count, because they are off their nodes."""
    cluster, asked, names = question
    state = SchedulingState(cluster)
    pods = {pod.name: pod for pod in cluster.pods.values()}
    expected = np.ones(len(state.node_names), dtype=bool)
    for there in product([False, True], repeat=len(names)):
        mark = state.checkpoint()
        for name, stands in zip(names, there, strict=True):
            if not stands:
                state.remove(pods[name])
        expected &= state.feasible(asked)
        state.rollback(mark)
    passing = []
    for name in names:
        pod, off = pods[name], int(name[1:]) in outside
        if off:
            state.remove(pod)
        if off or not pod.deleting:
            passing.append(TransientPod(pod, state.node_index[pod.node], counted=not off))
    assert lasting_affinity(asked, state.cluster, passing).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("asked", "disabled"),
    [(b.pod("plain"), frozenset()), (b.pod("near").near(ZONE, app="a"), frozenset({"InterPodAffinity"}))],
)
def test_without_required_affinity_that_the_profile_judges_there_is_nothing_to_say(asked, disabled):
    state = SchedulingState(b.snapshot(b.node("n0")), Profile(disabled=disabled))
    assert lasting_affinity(asked.build(), state.cluster, ()) is None
