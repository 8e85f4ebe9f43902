"""``make mutants`` breaks the promises of a move: what it replaces is still in the code, once."""

from pathlib import Path

import pytest

from harness.mutants.protocol import BREAKS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("each", BREAKS, ids=lambda each: each.promise)
def test_what_a_mutant_replaces_is_in_the_code_once(each):
    assert (ROOT / each.path).read_text().count(each.text) == 1
    assert all((ROOT / path).exists() for path in each.tests)
