"""What ``docker build`` would hand to the stage ``builder``, found from Dockerfile and .dockerignore without Docker."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]


class CopyError(Exception):
    """Docker would end with this: a COPY names what the build context does not have."""


class BuildContext:
    """The files of the repository that .dockerignore lets through: the last pattern that matches decides."""

    def __init__(self, root: Path) -> None:
        self._root = root
        lines = (line.strip() for line in (root / ".dockerignore").read_text().splitlines())
        self._patterns = [_pattern(line) for line in lines if line and not line.startswith("#")]

    def files(self, name: str) -> list[PurePosixPath]:
        """The file ``name``, or what the folder ``name`` holds, as far as it is let through."""
        source = self._root / name
        found = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())
        paths = (PurePosixPath(p.relative_to(self._root)) for p in found)
        return [path for path in paths if self._let_through(path)]

    def _let_through(self, path: PurePosixPath) -> bool:
        let_through = True
        for pattern, excludes in self._patterns:
            if pattern.fullmatch(str(path)):
                let_through = not excludes
        return let_through


def _pattern(line: str) -> tuple[re.Pattern[str], bool]:
    """A line of .dockerignore as an expression; what it matches as a folder it matches with all that is in it."""
    excludes = not line.startswith("!")
    glob = re.escape(line.removeprefix("!").strip("/"))
    expression = glob.replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    return re.compile(f"{expression}(?:/.*)?"), excludes


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """(instruction, arguments), with continued lines joined and comments left out."""
    text = re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.MULTILINE)
    joined = re.sub(r"\\\n", " ", text)
    found = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(word.upper(), rest.strip()) for word, _, rest in found]


def copy_for_builder(target: Path, root: Path = ROOT) -> None:
    """Puts into ``target`` what the first stage copies from the build context.

    Raises:
        CopyError: an instruction copies something that is not in the context.
    """
    context = BuildContext(root)
    stage = 0
    for instruction, arguments in instructions((root / "Dockerfile").read_text()):
        stage += instruction == "FROM"
        if stage != 1 or instruction != "COPY":
            continue
        *sources, destination = shlex.split(arguments)
        for source in sources:
            files = context.files(source)
            if not files:
                raise CopyError(f"COPY {source}: not in the build context")
            base = root / source
            for path in files:
                inside = (root / path).relative_to(base) if base.is_dir() else path.name
                copy = target / destination / inside
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / path, copy)
