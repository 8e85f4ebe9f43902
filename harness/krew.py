"""The plugin ``kubectl rescheduler`` for krew: one archive with all that the program needs but Python, and its manifest.

The packages are those that are installed here, compiled parts too: the archive is for this platform and this Python, and
says so. ``kubectl krew install --manifest FILE --archive FILE`` installs it without a network.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import yaml
from packaging.requirements import Requirement

import rescheduler

COMMAND: Final = "kubectl-rescheduler"
MANIFEST: Final = "krew-rescheduler.yaml"
_PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_START: Final = f"""\
#!/bin/sh
command -v {_PYTHON} >/dev/null || {{ echo 'error: this plugin needs {_PYTHON} on the PATH' >&2; exit 1; }}
exec {_PYTHON} -s "$(dirname "$(readlink -f "$0")")/lib/{COMMAND}" "$@"
"""
_ENTRY: Final = """\
from rescheduler.cli.entry import main

main()
"""


def plugin(folder: Path, wheel: Path, url: str) -> list[Path]:
    """The archive and its manifest. ``url``: the folder from which the archive will be served."""
    arch = _ARCHITECTURES.get(platform.machine(), platform.machine())
    archive = folder / f"{COMMAND}-{rescheduler.__version__}-{sys.platform}-{arch}.tar.gz"
    files = {
        COMMAND: _START.encode(),
        f"lib/{COMMAND}": _ENTRY.encode(),
        **dict(_wheel(wheel)),
        **dict(_packages()),
    }
    # No times and no users: the same files give the same bytes.
    with gzip.GzipFile(archive, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(files[name]), 0o755 if name == COMMAND else 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    manifest = folder / MANIFEST
    manifest.write_text(_manifest(archive, url, arch), encoding="utf-8")
    return [archive, manifest]


def _manifest(archive: Path, url: str, arch: str) -> str:
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
                "caveats": f"Needs {_PYTHON} on the PATH.\n",
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
            if ".." not in file.parts and file.suffix != ".pyc":
                yield f"lib/{file}", Path(str(file.locate())).read_bytes()


def _required(name: str) -> set[str]:
    found, asked = set[str](), [name]
    while asked:
        found.add(each := asked.pop())
        wanted = map(Requirement, distribution(each).requires or ())
        asked += [one.name for one in wanted if one.name not in found and _holds(one)]
    return found


def _holds(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})
