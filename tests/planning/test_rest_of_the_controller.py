"""The whole controller in virtual time on clusters that nobody else changes: its moves end, and none is undone."""

import pytest
from structlog.testing import capture_logs

from harness.rest.controller import MOST_HOURS, ControllerCourse, controller_course
from harness.rest.sets import DOCUMENTS
from tests.seeds import NIGHTLY, some


@pytest.mark.parametrize(("document", "seed"), some([("aggressive", 12), ("consolidate", 3)], 2))
def test_moves_per_hour_fall_to_none(document, seed):
    with capture_logs():
        course = controller_course(seed, (DOCUMENTS / f"{document}.yaml").read_bytes(), hours=2)
    assert course.faults == ()
    assert sum(course.moves), "a cluster that needs no moves proves nothing"


@pytest.mark.skipif(not NIGHTLY, reason="40 seconds of CPU: tried every night")
def test_moves_that_a_cool_down_spreads_over_hours_are_waited_for():
    """Of one Deployment five pods move, two in an hour: the last of them in the third."""
    with capture_logs():
        course = controller_course(10, (DOCUMENTS / "consolidate.yaml").read_bytes(), hours=2)
    assert course.faults == ()
    assert 2 < len(course.moves) < MOST_HOURS
    assert course.moves[-1] == 0


def test_a_cluster_that_still_moves_in_the_end_is_restless():
    course = ControllerCourse((1,) * MOST_HOURS, (), (), (), ())
    assert len(course.faults) == 1
