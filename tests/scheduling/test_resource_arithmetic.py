"""Scores on floating point are those on integers, to the last unit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.scheduling.framework import ShapePoint
from rescheduler.scheduling.resource_scores import _percent, broken_line


@given(whole=st.integers(1, 2**46 - 1), times=st.integers(0, 100), shift=st.integers(-2, 2))
def test_percent_is_exact_around_whole_percents(whole, times, shift):
    part = min(max(whole * times // 100 + shift, 0), whole)
    ours = _percent(np.asarray([part]), np.asarray([whole]))
    assert ours.tolist() == [part * 100 // whole]


@given(part=st.integers(0, 2**56), whole=st.integers(1, 2**56))
def test_huge_amounts_stay_on_integers(part, whole):
    assert _percent(np.asarray([part]), np.asarray([whole])).tolist() == [part * 100 // whole]


def test_a_falling_shape_truncates_towards_zero():
    shape = (ShapePoint(10, 10), ShapePoint(40, 3), ShapePoint(90, 7))
    line = broken_line(shape, np.asarray([0, 10, 11, 40, 41, 90, 100]))
    assert line.tolist() == [100, 100, 98, 30, 30, 70, 70]
