"""Each line of the threat model names a test, and there is such a test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "docs" / "security.md").read_text().partition("## Threat model")[2].partition("\n## ")[0]
ROWS = [line for line in SECTION.splitlines() if line.startswith("| ")][1:]
ACTORS = {
    "tenant with `edit`",
    "reserver",
    "node",
    "another controller",
    "stolen token of the controller",
}


@pytest.mark.parametrize("row", ROWS)
def test_each_line_has_its_test(row):
    (path, name) = re.findall(r"`(tests/[a-z_/]+\.py)::(test_[a-z_]+)`", row)[0]
    assert f"def {name}(" in (ROOT / path).read_text()


def test_each_actor_is_looked_at():
    assert {row.split("|")[1].strip().partition(",")[0] for row in ROWS} >= ACTORS
