"""Text tables in terminals of any width."""

import pytest

from rescheduler.reports.table import table

HEADER = ("#", "POD", "TO", "COST", "WHY")
ROWS = [
    ("1", "shop/web-7d9f8-x2v4q", "node-00017", "0.25", "does not tolerate the taint old:NoSchedule of its node"),
]  # fmt: skip


def lines(width, spare=(3,)):
    return table(HEADER, ROWS, right=frozenset({0, 3}), width=width, spare=spare)


def test_a_table_that_fits_keeps_every_column():
    assert lines(None) == lines(200)
    assert lines(200)[0].split() == list(HEADER)


def test_the_last_column_is_cut_first_then_spare_columns_go_and_names_stay_whole():
    header, row = lines(70)
    assert header.split() == list(HEADER)
    assert row.endswith("…")
    header, row = lines(66)
    assert header.split() == ["#", "POD", "TO", "WHY"]
    assert row.split()[:3] == ["1", "shop/web-7d9f8-x2v4q", "node-00017"]


def test_without_spare_columns_cells_are_cut():
    assert "COST" in lines(50, spare=())[0]
    assert "shop/web-7d9f8-x2v4q" not in lines(50, spare=())[1]


@pytest.mark.parametrize("width", range(40, 140, 7))
def test_no_line_is_longer_than_the_terminal(width):
    assert max(map(len, lines(width))) <= width
