"""A linear program with integers, put together row by row and solved by HiGHS (extra ``prove``). Pure but for the solver's time limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import highspy
import numpy as np

INFINITY: Final = math.inf


@dataclass(frozen=True)
class Solution:
    """What the solver found within its time."""

    objective: float
    """Of the best solution; infinite if none was found."""
    bound: float
    """No solution is below it."""
    values: tuple[float, ...]
    """By column; empty if no solution was found."""
    seconds: float = 0.0
    """What the solver took."""

    @property
    def proven(self) -> bool:
        """True if nothing better exists."""
        return bool(self.values) and self.objective - self.bound <= 1e-6 * max(1.0, abs(self.objective))


class IntegerProgram:
    """Columns are numbered from 0 as they are added. Everything is minimised."""

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._upper: list[float] = []
        self._integer: list[bool] = []
        self._rows: list[tuple[float, float, dict[int, float]]] = []

    def column(self, upper: float = INFINITY, *, cost: float = 0.0, integer: bool = True) -> int:
        """One more unknown, at least 0; gives its number."""
        self._costs.append(cost)
        self._upper.append(upper)
        self._integer.append(integer)
        return len(self._costs) - 1

    def row(self, terms: Mapping[int, float], *, least: float = -INFINITY, most: float = INFINITY) -> None:
        """``least`` <= sum of factor x column <= ``most``; a row without terms must hold by itself."""
        kept = {column: factor for column, factor in terms.items() if factor}
        if kept:
            # The solver's tolerance is absolute: a row of bytes is taken to factors of at most 1.
            scale = max(1.0, *(abs(factor) for factor in kept.values()))
            self._rows.append(
                (least / scale, most / scale, {column: factor / scale for column, factor in kept.items()})
            )
        elif least > 0 or most < 0:
            raise ValueError("a row without terms that cannot hold")

    def solve(self, seconds: float, *, gap: float = 0.0) -> Solution:
        """The best solution, or the best found in time; ``gap``: how far from the bound (a share) is good enough."""
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("time_limit", seconds)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("random_seed", 0)
        solver.setOptionValue("mip_rel_gap", gap)
        # With presolve HiGHS 1.15 calls solutions optimal that are not, so what it proves would be no bound.
        solver.setOptionValue("presolve", "off")
        solver.passModel(self._linear_program())
        solver.run()
        info = solver.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            bound = info.mip_dual_bound if math.isfinite(info.mip_dual_bound) else -INFINITY
            return Solution(INFINITY, bound, (), solver.getRunTime())
        bound = info.mip_dual_bound if any(self._integer) else info.objective_function_value
        return Solution(
            info.objective_function_value, bound, tuple(solver.getSolution().col_value), solver.getRunTime()
        )

    def _linear_program(self) -> highspy.HighsLp:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self._costs), len(self._rows)
        lp.col_cost_ = np.array(self._costs)
        lp.col_lower_, lp.col_upper_ = np.zeros(len(self._costs)), np.array(self._upper)
        lp.row_lower_ = np.array([least for least, _, _ in self._rows])
        lp.row_upper_ = np.array([most for _, most, _ in self._rows])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(terms) for _, _, terms in self._rows)], dtype=np.int32)
        lp.a_matrix_.index_ = np.array([c for _, _, terms in self._rows for c in terms], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([f for _, _, terms in self._rows for f in terms.values()])
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in self._integer]
        return lp
