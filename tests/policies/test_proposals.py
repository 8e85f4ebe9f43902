"""Candidates in batches: the order of one by one, and what is left when no more are taken."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.policies.proposals import NODE, Batch, by_gain, by_name, reluctance
from rescheduler.scheduling.classes import PodClass, class_key


@st.composite
def batches(draw):
    """A few classes of pods, each with one or two gains."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        owner = b.replicaset(f"app{number}", draw(st.sampled_from(["one", "two"])))
        owner = owner.priority(draw(st.sampled_from([0, 5])))
        names = draw(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=5, unique=True))
        pods = list(b.snapshot(owner, *(owner.pod(f"{n}-{number}").on("n") for n in names)).pods.values())
        cut = draw(st.integers(0, len(pods)))
        found += [
            Batch(
                kind=PodClass(class_key(some[0]), some[0]),
                pods=by_name(some),
                policy="P",
                reason="R",
                message=f"stands on {NODE}",
                gain=draw(st.sampled_from([0.2, 0.7])),
                spare=draw(st.booleans()),
            )
            for some in (pods[:cut], pods[cut:])
            if some
        ]
    return found


def rank(candidate):
    pod = candidate.pod
    return candidate.spare, -candidate.gain, *reluctance(pod), pod.namespace, pod.name


@given(found=batches())
def test_candidates_come_by_gain_reluctance_and_name(found):
    candidates = list(by_gain(found))
    assert candidates == sorted(candidates, key=rank)
    assert len(candidates) == sum(len(batch.pods) for batch in found)
    assert by_gain(found).gains() == sorted(c.gain for c in candidates if not c.spare)
    assert {c.message for c in candidates} <= {"stands on n"}


@given(found=batches(), number=st.integers(0, 20))
def test_what_was_not_taken_is_left(found, number):
    queue = by_gain(found).queue()
    taken = [candidate.pod.uid for candidate in islice(queue, number)]
    left = [pod.uid for batch in queue.rest() for pod in batch.pods]
    everything = [pod.uid for batch in found for pod in batch.pods]
    assert sorted([*taken, *left]) == sorted(everything)
