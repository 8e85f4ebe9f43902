"""The documents use the words of the field, and the files, modules and tests that they name exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FORMER_WORDS = (
    "promised room", "preallocated rooms", "promising", "room under way", "rooms under way",
    "own write not seen yet", "unseen write", "blind", "swaps", "swapping", "stray", "strays", "rivalry",
    "rivals", "patience", "neighbours", "shared room", "shared rooms", "share of the namespace",
    "shares of a namespace", "imagined", "stand-in", "wanted pod", "wanted pods", "dealt", "dealing",
    "dealt out", "handed out", "allotment", "let go", "lets go", "let in", "lets in", "stands back",
    "stand back", "outrun", "outran", "anew", "witness", "judge of histories", "deed", "deeds",
    "rough deeds", "embedded cluster",
)  # fmt: skip
"""Private words that the field's have replaced."""
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
    str(path.relative_to(ROOT)): set(re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8")))
    for path in (ROOT / "tests").rglob("test_*.py")
}


def quoted(path):
    """What stands in code marks on one line."""
    return re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))


def of_repository(path):
    return str(path.relative_to(ROOT))


def test_former_words_are_gone():
    former, found = re.compile(rf"\b(?:{'|'.join(FORMER_WORDS)})\b", re.IGNORECASE), {}
    for path in DOCUMENTS:
        prose = re.sub(r"```.*?```|`[^`\n]+`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        if words := former.findall(prose):
            found[of_repository(path)] = words
    assert found == {}


def missing(text):
    """Files, modules, folders and tests that a text in code marks names and that are not there."""
    for name in re.findall(r"[\w./*-]+\.py\b", text):
        pattern = re.compile(r"(^|/)" + re.escape(name).replace(r"\*", ".*") + "$")
        if not any(pattern.search(known) for known in PATHS):
            yield name
    for name in re.findall(r"-m ((?:harness|bench)[.\w]*)", text):
        stem = name.replace(".", "/")
        if not {f"{stem}.py", f"{stem}/__main__.py"} & PATHS:
            yield name
    folder = re.fullmatch(r"((rescheduler|harness|tests|bench|examples)/[\w/]+?)/?", text)
    if folder and folder[1] not in PATHS:
        yield text
    file, _, name = text.rpartition("::")
    if re.fullmatch(r"test_\w+…?", name):
        there = TESTS.get(file, ()) if file.startswith("tests/") else set().union(*TESTS.values())
        if not any(test == name or (name.endswith("…") and test.startswith(name[:-1])) for test in there):
            yield text


def test_what_is_named_exists():
    named = {path: quoted(path) for path in DOCUMENTS}
    gone = {
        of_repository(path): [m for text in texts for m in missing(text)] for path, texts in named.items()
    }
    assert {path: names for path, names in gone.items() if names} == {}
