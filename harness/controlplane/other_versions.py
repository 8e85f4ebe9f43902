"""A Go module that builds another version of Kubernetes than the one that the tests are written for.

The module of ``tests/controlplane`` is pinned with every checksum; this one is made from what that version says of
itself, and its checksums come from Go's checksum database. For compatibility runs alone, never for the tests of a
change.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any, Final

WELL_FORMED: Final = re.compile(r"v1\.\d+\.\d+")
_UNTOLD: Final = "v0.0.0"
"""How Kubernetes names the version of its own staging modules, which a module outside of it must replace."""


class NoSuchVersion(Exception):  # noqa: N818  says what to give instead
    """Not a version of Kubernetes that can be had."""


def module_text(version: str) -> str:
    """The text of ``go.mod``. Raises NoSuchVersion."""
    try:
        found = _asked("go", "mod", "download", "-json", f"k8s.io/kubernetes@{version}")
        told = _asked("go", "mod", "edit", "-json", found["GoMod"])
    except subprocess.CalledProcessError as error:
        raise NoSuchVersion(
            f"k8s.io/kubernetes {version} cannot be had: {(error.stderr or error.stdout).strip()}"
        ) from error
    staging = [needed["Path"] for needed in told["Require"] if needed["Version"] == _UNTOLD]
    own = version.replace("v1.", "v0.", 1)
    lines = [
        "module rescheduler.dev/compatibility",
        f"go {told['Go']}",
        f"require k8s.io/kubernetes {version}",
        *(f"replace {path} => {path} {own}" for path in staging),
    ]
    return "\n".join(lines) + "\n"


def _asked(*command: str) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  constant commands
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
