"""Which modules are mutated, by which tests each is guarded, and which changes are worth trying. Pure.

Only modules in which a wrong decision evicts into the void, and only changes that turn a decision: a comparison or a
condition negated, its border moved, ``and`` for ``or``, a constant or a sum changed. What replaces an addition by a
shift finds nothing that these do not.
"""

from __future__ import annotations

from typing import Final

TESTS: Final[dict[str, tuple[str, ...]]] = {
    "rescheduler/controller/loop.py": (
        "tests/controller/test_guards_of_the_loop.py",
        "tests/controller/test_crashes.py",
        "tests/controller/test_measured_usage.py",
        "tests/controller/test_slow_calls.py",
        "tests/controller/test_every_metric_moves.py",
        "tests/controller/test_node_requests.py",
    ),
    "rescheduler/controller/sender.py": (
        "tests/controller/test_sender.py",
        "tests/controller/test_guards_of_the_loop.py",
    ),
    "rescheduler/coordination/handover_order.py": (
        "tests/coordination",
        "tests/controller/test_rooms_for_several.py",
    ),
    "rescheduler/coordination/placeholder_turns.py": ("tests/coordination",),
    "rescheduler/reservations/handover.py": (
        "tests/reservations",
        "tests/controller/test_rooms_for_several.py",
    ),
    "rescheduler/migrations/evicting.py": ("tests/migrations", "tests/controller/test_guards_of_the_loop.py"),
}
"""Module -> its tests, the quickest first: the first that fails ends the trial."""

_COMPARISONS: Final = (
    "GtE_Lt", "GtE_Gt", "Lt_GtE", "Lt_LtE", "Gt_LtE", "Gt_GtE", "LtE_Gt", "LtE_Lt",
    "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is", "In_NotIn", "NotIn_In",
)  # fmt: skip
OPERATORS: Final = frozenset(
    {
        "core/AddNot",
        "core/NumberReplacer",
        "core/ReplaceAndWithOr",
        "core/ReplaceOrWithAnd",
        "core/ReplaceTrueWithFalse",
        "core/ReplaceFalseWithTrue",
        "core/ReplaceUnaryOperator_Delete_Not",
        "core/ZeroIterationForLoop",
        "core/ReplaceBinaryOperator_Add_Sub",
        "core/ReplaceBinaryOperator_Sub_Add",
        *(f"core/ReplaceComparisonOperator_{each}" for each in _COMPARISONS),
    }
)
"""Names that cosmic-ray gives them."""
