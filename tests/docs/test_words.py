"""The documents use the words of the glossary, and the files, modules and tests that they name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs/glossary.md"
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md", "examples/*.md", "changelog.d/*.md")
    for path in ROOT.glob(pattern)
)
CODE = [
    path
    for folder in ("rescheduler", "harness", "tests", "bench", "examples")
    for path in (ROOT / folder).rglob("*")
]
PATHS = {str(path.relative_to(ROOT)) for path in CODE if "__pycache__" not in path.parts}
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
}


def former_words():
    """First column of the table of former words."""
    table = GLOSSARY.read_text(encoding="utf-8").partition("## Former words")[2]
    rows = re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE)
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


def quoted(path):
    """What stands in code marks on one line."""
    return re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))


def of_repository(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if p != GLOSSARY], ids=of_repository)
def test_former_words_are_gone(path):
    words = former_words()
    assert len(words) > 20
    prose = re.sub(r"```.*?```|`[^`\n]+`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = {word for word in words if re.search(rf"\b{word}\b", prose, re.IGNORECASE)}
    assert found == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=of_repository)
def test_named_files_and_modules_exist(path):
    missing = []
    for text in quoted(path):
        for name in re.findall(r"[\w./*-]+\.py\b", text):
            pattern = re.compile(r"(^|/)" + re.escape(name).replace(r"\*", ".*") + "$")
            if not any(pattern.search(known) for known in PATHS):
                missing.append(name)
        for name in re.findall(r"-m ((?:harness|bench)[.\w]*)", text):
            stem = name.replace(".", "/")
            if not {f"{stem}.py", f"{stem}/__main__.py"} & PATHS:
                missing.append(name)
        folder = re.fullmatch(r"((rescheduler|harness|tests|bench|examples)/[\w/]+?)/?", text)
        if folder and folder[1] not in PATHS:
            missing.append(text)
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=of_repository)
def test_named_tests_exist(path):
    named = {text.rpartition("::")[2] for text in quoted(path)}
    named = {name for name in named if re.fullmatch(r"test_\w+…?", name)}
    assert {
        name
        for name in named
        if not any(known == name or (name.endswith("…") and known.startswith(name[:-1])) for known in TESTS)
    } == set()
