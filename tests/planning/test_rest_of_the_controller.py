"""The whole controller in virtual time on clusters that nobody else changes: its moves end, and none is undone."""

import pytest
from structlog.testing import capture_logs

from harness.rest.controller import controller_course
from harness.rest.sets import DOCUMENTS


@pytest.mark.parametrize(("document", "seed"), [("aggressive", 1), ("consolidate", 3)])
def test_moves_per_hour_fall_to_none(document, seed):
    with capture_logs():
        course = controller_course(seed, (DOCUMENTS / f"{document}.yaml").read_bytes(), hours=3)
    assert course.faults == ()
    assert sum(course.moves), "a cluster that needs no moves proves nothing"
