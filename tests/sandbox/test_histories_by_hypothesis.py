"""Random histories that hypothesis writes: a failure is shrunk to a short story, and played again at the next run.

Everything that a history draws (the cluster, what is asked for, what goes wrong and when) comes from hypothesis; the
interleaving of the cluster's components follows from one seed, for it draws thousands of times.
"""

import os

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from harness.histories.history import History

EXAMPLES = int(os.environ.get("RESCHEDULER_EXAMPLES", "4"))


@given(rng=st.randoms(use_true_random=False), seed=st.integers(0, 1_000))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
def test_every_promise_is_kept_in_a_history_that_hypothesis_writes(rng, seed):
    assert History(rng, note, seed=seed).play().faults == ()
