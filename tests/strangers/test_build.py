"""Programs of others: found in the cache, or missing with one sentence that says what to do."""

import json

import pytest

from harness.controlplane.binaries import BinariesMissing
from harness.strangers.build import built, find
from harness.strangers.tools import DESCHEDULER, TOOLS


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("look", [find, built])
def test_without_go_one_sentence_says_so(cache, look):
    with pytest.raises(BinariesMissing, match="Go is not installed") as caught:
        look(DESCHEDULER)
    assert "\n" not in str(caught.value)


def test_what_is_not_built_names_the_command(cache):
    (cache / "go").touch(mode=0o755)
    with pytest.raises(BinariesMissing, match=r"python -m harness\.strangers descheduler"):
        find(DESCHEDULER)


def test_what_is_there_is_not_built_again(cache):
    DESCHEDULER.path.parent.mkdir(parents=True)
    DESCHEDULER.path.touch()
    assert built(DESCHEDULER) == find(DESCHEDULER) == DESCHEDULER.path


def test_each_program_has_a_place_and_a_name_of_its_own():
    assert len({tool.path for tool in TOOLS}) == len({tool.name for tool in TOOLS}) == len(TOOLS)
    assert all(tool.version in tool.path.name for tool in TOOLS)


def test_a_build_that_breaks_leaves_nothing(cache, monkeypatch):
    go = cache / "go"
    answer = json.dumps({"Dir": str(cache)})
    go.write_text(f"#!/bin/sh\n[ $1 = mod ] && echo '{answer}' || exit 3\n")
    go.chmod(0o755)
    for name in ("go.mod", "go.sum"):
        (cache / name).touch()
    with pytest.raises(BinariesMissing, match=r"Building descheduler-v0\.36\.0 failed"):
        built(DESCHEDULER)
    assert not list(DESCHEDULER.path.parent.iterdir())
