"""The one knob is monotone, and its middle is what Limits say by themselves."""

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.planning.limits import NAMED_LEVELS, TABLE, Limits, PlanningInputs, limits_for

OF_PEOPLE = {"requested", "windows"}
"""No matter of aggressiveness: what people ask for is limited apart, and when moves begin they say themselves."""
LESS_IS_BOLDER = {"minimum_gain", "workload_cooldown_s", "budget_buffer"}


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_never_allows_less(one, other):
    low, high = limits_for(min(one, other)), limits_for(max(one, other))
    for field in set(Limits.__struct_fields__) - OF_PEOPLE:
        weak, strong = getattr(low, field), getattr(high, field)
        assert (strong <= weak) if field in LESS_IS_BOLDER else (strong >= weak), field


def test_every_limit_is_in_the_table():
    assert {row.field for row in TABLE} == set(Limits.__struct_fields__) - OF_PEOPLE


def test_balanced_is_the_default():
    assert limits_for(NAMED_LEVELS["balanced"]) == Limits()


def test_levels_outside_are_clamped():
    assert limits_for(-3) == limits_for(0)
    assert limits_for(7) == limits_for(1)


def test_a_plan_within_limits_searches_shorter():
    assert PlanningInputs(effort=128, unlimited=True).passes == 128
    assert PlanningInputs(effort=128).passes == 8
    assert PlanningInputs(effort=1).passes == 1
