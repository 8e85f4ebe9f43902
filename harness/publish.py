"""Builds what a release publishes into ``dist/``, without a network: wheel, source, krew plugin, chart, manifests, checksums.

The image (``make container``) and the list of its contents (``make sbom``) need more than Python; docs/installing.md and
CONTRIBUTING.md have the commands that sign and push. ``python -m harness.publish FOLDER URL [MINOR...]``; URL: the folder from which they will be
served; MINOR: the Pythons of the krew plugin, the newest first (3.13 3.12 3.11), whose wheels pip fetches; default: this one.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from harness import krew
from harness.controlplane import manifests
from harness.controlplane.binaries import BinariesMissing
from harness.strangers.build import find
from harness.strangers.tools import HELM
from rescheduler import __version__

ROOT: Final = Path(__file__).parents[1]
URL: Final = "https://releases.example"
SUMS: Final = "SHA256SUMS"
OVERLAYS: Final = {"install": "", "install-dry-run": "overlays/dry-run", "install-guard": "overlays/guard"}


def publish(folder: Path, url: str = URL, minors: Sequence[str] = (krew.HERE,)) -> list[Path]:
    """The files, with their checksums last. Raises CalledProcessError: a part cannot be built."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = _packages(folder)
    made = [*packages, *krew.plugin(folder, packages[0], url, minors), *_chart(folder)]
    for name, overlay in OVERLAYS.items():
        made.append(folder / f"{name}.yaml")
        made[-1].write_text(manifest_text(manifests.load(manifests.FOLDER / overlay)), encoding="utf-8")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made)]
    sums = folder / SUMS
    sums.write_text("".join(lines), encoding="utf-8")
    return [*made, sums]


def manifest_text(objects: list[dict[str, Any]]) -> str:
    """All of them in one file, for ``kubectl apply --server-side -f``."""
    return yaml.safe_dump_all(objects, sort_keys=False, width=120, allow_unicode=True)


def _packages(folder: Path) -> list[Path]:
    """The wheel, and the source."""
    line = [sys.executable, "-m", "hatchling", "build", "-d", str(folder.resolve())]
    subprocess.run(line, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - this interpreter
    return [next(folder.glob(f"rescheduler-{__version__}{end}")) for end in ("-*.whl", ".tar.gz")]


def _chart(folder: Path) -> list[Path]:
    """The chart as an archive, which ``helm push`` takes; none where helm was not built."""
    try:
        helm = find(HELM)
    except BinariesMissing as missing:
        sys.stderr.write(f"no chart: {missing}\n")
        return []
    line = [str(helm), "package", str(ROOT / "charts" / "rescheduler"), "--destination", str(folder)]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - our helm
    return [folder / f"rescheduler-{__version__}.tgz"]


if __name__ == "__main__":
    for made in publish(Path(sys.argv[1]), sys.argv[2], sys.argv[3:] or (krew.HERE,)):
        sys.stdout.write(f"{made}\n")
