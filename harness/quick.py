"""The tests nearest to what was changed, until a limit of time is over: ``make quick``.

A test file is as far from a change as the chain of imports between them is long, its own change being no distance at all.
Nearest files run first, in one process, and the last line says how much was left out: only ``make test`` proves everything.
What nothing imports (documents, manifests, charts, commands that are loaded by name) is tested by the folder of its name.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import grimp
import pytest

ROOT: Final = Path(__file__).parent.parent
CACHE: Final = ROOT / ".import_linter_cache"
PACKAGES: Final = ("rescheduler", "kube_sandbox", "harness", "bench", "tests")
LIMIT_S: Final = 45.0
MOST_FILES: Final = 60
_SAME_FOLDER: Final = {"charts": "packaging", "examples": "examples"}


class UntilLimit:
    """A pytest plugin: begins no test after the limit, and tells how many it left out."""

    def __init__(self, limit_s: float) -> None:
        self._end_s = time.monotonic() + limit_s
        self._left_out = 0

    def pytest_runtest_protocol(self) -> bool | None:
        """True takes the test from pytest: it is not run."""
        if time.monotonic() < self._end_s:
            return None
        self._left_out += 1
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The line about what was left out."""
        if self._left_out:
            terminalreporter.write_line(
                f"{self._left_out} tests of these files were left out for want of time"
            )


def changed_files(since: str) -> list[str]:
    """Paths that differ from a commit, and new ones that git does not ignore."""
    differing = _git("diff", "--name-only", since)
    return sorted({*differing, *_git("ls-files", "--others", "--exclude-standard")})


def nearest(changed: Iterable[str], graph: grimp.ImportGraph) -> list[str]:
    """Test files that the changed files reach by imports, or that stand for their folder; nearest first."""
    changed = list(changed)
    start = {_module(path) for path in changed if path.endswith(".py")} & graph.modules
    by_import = [
        module for module in _by_distance(start, graph) if module.rpartition(".")[2].startswith("test_")
    ]
    reached = [f"{module.replace('.', '/')}.py" for module in by_import]
    named, folders = [], []
    for path in changed:
        *parents, name = path.removeprefix("rescheduler/").split("/")
        beside = _tests_of(parents[0]) if parents and parents[0] not in {"tests", "harness", "bench"} else []
        named += [test for test in beside if f"test_{name.partition('.')[0]}" in test]
        folders += beside
    return list(dict.fromkeys([*named, *reached, *folders]))


def _tests_of(folder: str) -> list[str]:
    tests = ROOT / "tests" / _SAME_FOLDER.get(folder, folder)
    return [str(path.relative_to(ROOT)) for path in sorted(tests.glob("test_*.py"))]


def _by_distance(start: set[str], graph: grimp.ImportGraph) -> Iterator[str]:
    seen, ring = set(start), sorted(start)
    while ring:
        yield from ring
        importers = {name for module in ring for name in _users(module, graph)}
        ring = sorted(importers - seen)
        seen |= importers


def _users(module: str, graph: grimp.ImportGraph) -> set[str]:
    """What imports a module; the tests of its folder where it is a conftest.py, that of all tests left aside."""
    folder, _, name = module.rpartition(".")
    if name == "conftest" and folder != "tests":
        return {other for other in graph.modules if other.startswith(f"{folder}.")}
    return graph.find_modules_that_directly_import(module)


def _module(path: str) -> str:
    inside = path.removeprefix("sandbox/").removesuffix(".py").removesuffix("/__init__")
    return inside.replace("/", ".")


def _git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - words of this module
    return done.stdout.split("\n")[:-1]


def main() -> int:
    """Exit code of pytest; 0 where the change reaches no test."""
    parser = argparse.ArgumentParser(prog="make quick", description=__doc__)
    parser.add_argument("--since", default="HEAD", help="the commit that the working tree is compared with")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S)
    options = parser.parse_args()
    files = nearest(changed_files(options.since), grimp.build_graph(*PACKAGES, cache_dir=str(CACHE)))
    if not files:
        sys.stdout.write(f"What differs from {options.since} reaches no test.\n")
        return 0
    sys.stdout.write(
        f"The nearest {min(len(files), MOST_FILES)} of {len(files)} test files, for {options.limit_s:.0f} s\n"
    )
    sys.stdout.flush()
    chosen = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not realcluster and not koordinator and not strangers and not container",
        *files[:MOST_FILES],
    ]
    code = pytest.main(chosen, plugins=[UntilLimit(options.limit_s)])
    return 0 if code is pytest.ExitCode.NO_TESTS_COLLECTED else int(code)


if __name__ == "__main__":
    sys.exit(main())
