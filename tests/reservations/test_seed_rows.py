"""docs/reservations.md answers every row of the seed, and each test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/reservations.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| K(\d+) \| (.+) \| `(.+)::(.+)` \|$", TEXT, re.MULTILINE)


def test_every_row_is_answered_once():
    assert [int(number) for number, *_ in ROWS] == list(range(1, 92))


@pytest.mark.parametrize(("file", "name"), sorted({(file, name) for _, _, file, name in ROWS}))
def test_each_named_test_is_there(file, name):
    assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8")
