"""A copy of the repository that may be broken, and whether tests fail there. The sources stay as they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def copy_repository(folder: Path) -> None:
    """What git knows and what is new, so that a run that is killed leaves the sources as they were."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - the developer's own git
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if Path(name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, target)


def pytest_command(*options: str) -> list[str]:
    """Pytest as far as the first failure, remembering nothing."""
    return [
        sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--show-capture=no", *options,
    ]  # fmt: skip


def import_path(folder: Path) -> str:
    """``PYTHONPATH`` with which both packages of the copy are imported, not those of the repository."""
    return f"{folder}{os.pathsep}{folder / 'sandbox'}"


def fails(folder: Path, tests: Sequence[str]) -> bool:
    """Whether one of the tests fails in the copy. Raises RuntimeError if they could not be run."""
    ended = subprocess.run(  # noqa: S603 - our own tests
        pytest_command("-m", "not realcluster", *tests),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": import_path(folder)},
        check=False,
        capture_output=True,
        text=True,
    )
    if ended.returncode not in (0, 1):
        raise RuntimeError(ended.stdout[-2000:])
    return ended.returncode == 1
