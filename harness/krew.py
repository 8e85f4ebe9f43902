"""The plugin ``kubectl rescheduler`` for krew: one archive with all that the program needs but Python, and its manifest.

Compiled packages are of one minor of Python: those that are installed here for the Python that builds, and for each of ``minors`` the
wheels of the same versions, which pip fetches. The plugin takes the newest Python on the PATH that it has packages for; without one it
says what to install. ``kubectl krew install --manifest FILE --archive FILE`` installs it without a network.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution
from pathlib import Path, PurePath
from typing import Final

import yaml
from packaging.requirements import Requirement

import rescheduler

COMMAND: Final = "kubectl-rescheduler"
MANIFEST: Final = "krew-rescheduler.yaml"
HERE: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_GLIBC: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
_START: Final = """\
#!/bin/sh
lib=$(dirname "$(readlink -f "$0")")/lib
for minor in {minors}; do
  if command -v "python$minor" >/dev/null; then exec "python$minor" -s "$lib/{command}" "$@"; fi
done
minor=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
if [ -n "$minor" ] && [ -d "$lib/python$minor" ]; then exec python3 -s "$lib/{command}" "$@"; fi
echo "error: this plugin is built for Python {named}, and none of these is on the PATH (python3 is ${{minor:-missing}}): \
install one, or the wheel, which any Python from 3.11 runs: pip install {url}/{wheel}" >&2
exit 1
"""
_ENTRY: Final = """\
import sys

sys.path.insert(1, f"{sys.path[0]}/python{sys.version_info.major}.{sys.version_info.minor}")
from rescheduler.cli.entry import main

main()
"""


def plugin(folder: Path, wheel: Path, url: str, minors: Sequence[str] = (HERE,)) -> list[Path]:
    """The archive and its manifest. ``url``: the folder from which the archive will be served; ``minors``: of Python, the newest first."""
    arch = _ARCHITECTURES.get(platform.machine(), platform.machine())
    archive = folder / f"{COMMAND}-{rescheduler.__version__}-{sys.platform}-{arch}.tar.gz"
    start = _START.format(
        minors=" ".join(minors), named=" or ".join(minors), command=COMMAND, url=url, wheel=wheel.name
    )
    files = {COMMAND: start.encode(), f"lib/{COMMAND}": _ENTRY.encode(), **dict(_wheel(wheel))}
    for minor in minors:
        files |= dict(_packages() if minor == HERE else _fetched(minor))
    # No times and no users: the same files give the same bytes.
    with (
        gzip.GzipFile(archive, "wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(files[name]), 0o755 if name == COMMAND else 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    manifest = folder / MANIFEST
    manifest.write_text(_manifest(archive, url, arch, minors), encoding="utf-8")
    return [archive, manifest]


def _manifest(archive: Path, url: str, arch: str, minors: Sequence[str]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "rescheduler"},
            "spec": {
                "version": f"v{rescheduler.__version__}",
                "homepage": url,
                "shortDescription": "Move pods to better nodes, capacity reserved first",
                "description": "Plans, drains, consolidates and explains; the controller moves pods.\n",
                "caveats": f"Needs Python {' or '.join(minors)} on the PATH.\n",
                "platforms": [
                    {
                        "selector": {"matchLabels": {"os": sys.platform, "arch": arch}},
                        "uri": f"{url}/{archive.name}",
                        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
                        "bin": COMMAND,
                    }
                ],
            },
        },
        sort_keys=False,
    )


def _wheel(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            yield f"lib/{name}", packed.read(name)


def _packages() -> Iterator[tuple[str, bytes]]:
    """What the program requires and what these packages require, as installed: modules, data, licences."""
    for name in sorted(_required("rescheduler") - {"rescheduler"}):
        for file in distribution(name).files or ():
            if ".." not in file.parts and _packed(file):
                yield f"lib/python{HERE}/{file}", Path(str(file.locate())).read_bytes()


def _fetched(minor: str) -> Iterator[tuple[str, bytes]]:
    """The same versions as wheels for another Python. Raises CalledProcessError: there is none."""
    pinned = [
        f"{name}=={distribution(name).version}" for name in sorted(_required("rescheduler") - {"rescheduler"})
    ]
    tags = [word for tag in _GLIBC for word in ("--platform", f"{tag}_{platform.machine()}")]
    with tempfile.TemporaryDirectory() as target:
        asked = [
            *("--target", target, "--python-version", minor),
            *tags,
            *("--only-binary=:all:", "--no-deps"),
        ]
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *asked, *pinned], check=True)  # noqa: S603 - this interpreter
        for path in sorted(Path(target).rglob("*")):
            if path.is_file() and _packed(file := path.relative_to(target)):
                yield f"lib/python{minor}/{file}", path.read_bytes()


def _packed(file: PurePath) -> bool:
    """Not what Python compiled, nor the asynchronous twin of the Kubernetes client, which is never imported: 40 MB."""
    return file.suffix != ".pyc" and file.parts[:2] != ("kubernetes", "aio")


def _required(name: str) -> set[str]:
    found, asked = set[str](), [name]
    while asked:
        found.add(each := asked.pop())
        wanted = map(Requirement, distribution(each).requires or ())
        asked += [one.name for one in wanted if one.name not in found and _holds(one)]
    return found


def _holds(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})
