"""Fragments of the changelog are named as towncrier expects, and all of them are in what it renders."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md")
TYPES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]["fragment"]


def test_a_fragment_has_a_type_and_whole_sentences():
    """Its name is +WORDS.TYPE.md."""
    name = re.compile(rf"\+[a-z0-9-]+\.({'|'.join(TYPES)})\.md")
    assert [path.name for path in FRAGMENTS if not name.fullmatch(path.name)] == []
    assert [p.name for p in FRAGMENTS if not p.read_text(encoding="utf-8").rstrip().endswith(".")] == []


def test_every_type_is_explained():
    explained = re.findall(r"^\| `(\w+)` \|", (ROOT / "changelog.d/README.md").read_text(), re.MULTILINE)
    assert explained == list(TYPES)


def test_every_fragment_is_rendered():
    pytest.importorskip("towncrier")
    words = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert "## 9.9.9" in done.stdout
    rendered = " ".join(done.stdout.split())
    for path in FRAGMENTS:
        assert f"- {' '.join(path.read_text(encoding='utf-8').split())}" in rendered
