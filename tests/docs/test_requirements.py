"""docs/design/requirements.md has every row once, and explains each row that is cited."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "docs/design/requirements.md"
ROW = re.compile(r"^\| ([KRMV]\d+) \|", re.MULTILINE)
CITED = re.compile(r"\b([KRMV])(\d{1,2})(?:-\1?(\d{1,2}))?\b")
FOLDERS = ("rescheduler", "harness", "tests", "docs", "manifests", "examples")
SUFFIXES = {".py", ".md", ".yaml"}

EXPLAINED = ROW.findall(REQUIREMENTS.read_text(encoding="utf-8"))


def cited_rows(text):
    """Ids of rows in a text; `K15-K50` cites all rows between the two."""
    for table, first, last in CITED.findall(text):
        yield from (f"{table}{number}" for number in range(int(first), int(last or first) + 1))


def test_a_range_cites_every_row_of_it():
    assert list(cited_rows("rows R53-R55, M9, K1-2")) == ["R53", "R54", "R55", "M9", "K1", "K2"]


def test_every_cited_row_is_explained():
    files = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in SUFFIXES]
    assert files
    here = Path(__file__).resolve()
    cited = {
        row: str(path.relative_to(ROOT))
        for path in files
        if path != here
        for row in cited_rows(path.read_text(encoding="utf-8"))
    }
    assert {row: path for row, path in cited.items() if row not in EXPLAINED} == {}


def test_no_row_stands_twice_and_none_is_missing():
    tables = {"K": 91, "R": 85, "V": 31, "M": 66}
    for table, last in tables.items():
        rows = [row for row in EXPLAINED if row.startswith(table)]
        assert rows == [f"{table}{n}" for n in range(1, last + 1)]
