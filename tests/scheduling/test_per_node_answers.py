"""Answers that are kept are those that would be given now."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.scheduling.per_node_answers import PerNodeAnswers

SIZE = 6
STEPS = st.one_of(
    st.tuples(st.just("change"), st.integers(0, SIZE - 1)),
    st.tuples(st.just("ask"), st.integers(0, 70)),
    st.tuples(st.just("replace"), st.just(0)),
)


@given(steps=st.lists(STEPS, max_size=60))
def test_answers_are_never_stale(steps):
    holds, kept = np.arange(SIZE), PerNodeAnswers(SIZE)
    for kind, number in steps:
        if kind == "change":
            holds[number] += 1
            kept.touch(number)
        elif kind == "replace":
            holds = holds + 10
            kept.forget()
        else:
            answers = kept.of(number, lambda nodes, held=holds, more=number: held[nodes] + more)
            assert answers.tolist() == (holds + number).tolist()


def test_only_touched_nodes_are_judged_again():
    holds, kept, judged = np.zeros(100, dtype=np.int64), PerNodeAnswers(100), []

    def judge(nodes):
        judged.append(nodes.tolist())
        return holds[nodes]

    kept.of("what", judge)
    holds[7] = 1
    kept.touch(7)
    assert kept.of("what", judge)[7] == 1
    assert judged == [list(range(100)), [7]]
