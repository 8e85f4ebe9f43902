"""Each line of the threat model names a test (test_words.py looks for it), and every actor has lines."""

import re
from pathlib import Path

SECURITY = Path(__file__).resolve().parents[2] / "docs" / "security.md"
ROWS = SECURITY.read_text().partition("## Threat model")[2].partition("\n## ")[0].splitlines()
ACTORS = {"tenant with `edit`", "reserver", "node", "another controller", "stolen token of the controller"}


def test_each_actor_is_looked_at_and_each_line_has_its_test():
    rows = [line for line in ROWS if line.startswith("| ")][1:]
    assert [row for row in rows if not re.search(r"`tests/[a-z_/]+\.py::test_[a-z_]+`", row)] == []
    assert {row.split("|")[1].strip().partition(",")[0] for row in rows} >= ACTORS
