"""Builds the image with buildah and starts it with runc: no daemon, and no registry of images.

The stages' base is a small Debian with its own Python, made by debootstrap, in place of the one that the Dockerfile names. A
container is started as the Deployment says: its user, a read-only root, no capability, no new privileges. It needs root.
Where it runs shares the network of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.packaging.image import ROOT

NEEDED: Final = ("debootstrap", "buildah", "runc")
SUITE: Final = "trixie"
"""The Debian of the Dockerfile's own base, with the same minor version of Python."""
PACKAGES: Final = "python3,python3-venv,python-is-python3,ca-certificates"
BASE: Final = "localhost/base"
IMAGE: Final = "localhost/rescheduler"
LIMIT_S: Final = 1200.0


class EngineError(Exception):
    """A step that failed; the text is what it printed."""


def lacking() -> str:
    """What this machine lacks to build and start an image, as a sentence; empty: nothing."""
    if os.geteuid() != 0:
        return "the image is built and started by root only"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"{', '.join(missing)} missing: the image is not built" if missing else ""


@dataclass
class Engine:
    """Everything that it makes is in ``folder``."""

    folder: Path
    containers: list[str] = field(default_factory=list)

    def build(self) -> dict[str, Any]:
        """The image; returns its configuration. Raises EngineError."""
        root = self.folder / "base"
        self._run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root))
        shutil.rmtree(root / "var/cache/apt", ignore_errors=True)
        (self.folder / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{self.folder}/graph"\nrunroot = "{self.folder}/run"\n'
        )
        (self.folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        policy = f"--signature-policy={self.folder}/policy.json"
        base = self._run("buildah", "from", "scratch")
        self._run("buildah", "add", "--quiet", base, str(root), "/")
        self._run("buildah", "config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", base)
        self._run("buildah", "commit", "--quiet", "--rm", policy, base, BASE)
        shutil.rmtree(root)
        words = ("build", "--pull-never", policy, "--build-arg", f"PYTHON={BASE}", "--tag", IMAGE)
        self._run("buildah", *words, *self._index(), str(ROOT))
        found = json.loads(self._run("buildah", "inspect", "--type", "image", IMAGE))
        configuration: dict[str, Any] = found["OCIv1"]["config"]
        return configuration

    def start(
        self,
        configuration: dict[str, Any],
        arguments: Sequence[str],
        *,
        mounts: Mapping[str, Path] = MappingProxyType({}),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[str]:
        """A container whose output is read from the process. ``mounts``: folders of this machine by their path inside, read-only."""
        name = f"rescheduler-test-{os.getpid()}-{len(self.containers)}"
        self.containers.append(name)
        root = self._run("buildah", "mount", self._run("buildah", "from", "--pull-never", IMAGE))
        bundle = self.folder / name
        bundle.mkdir()
        self._run("runc", "spec", "--bundle", str(bundle))
        path = bundle / "config.json"
        spec = json.loads(path.read_text())
        uid, gid = map(int, configuration["User"].split(":"))
        spec["root"] = {"path": root, "readonly": True}
        spec["process"] |= {
            "terminal": False,
            "user": {"uid": uid, "gid": gid},
            "args": [*configuration["Entrypoint"], *arguments],
            "env": [*configuration["Env"], *(f"{key}={value}" for key, value in environment.items())],
            "noNewPrivileges": True,
            "capabilities": {kind: [] for kind in spec["process"]["capabilities"]},
        }
        spec["linux"]["namespaces"] = [n for n in spec["linux"]["namespaces"] if n["type"] != "network"]
        spec["mounts"] += [
            {"destination": inside, "source": str(folder), "type": "bind", "options": ["ro", "rbind"]}
            for inside, folder in mounts.items()
        ]
        path.write_text(json.dumps(spec))
        return subprocess.Popen(
            ["runc", "run", "--bundle", str(bundle), name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def stop(self, signal: str = "TERM") -> None:
        """Sends the signal to all containers that still run."""
        for name in self.containers:
            subprocess.run(["runc", "kill", name, signal], capture_output=True, check=False, timeout=30)

    def _index(self) -> list[str]:
        """Where this machine's pip has packages from, for the RUN of the first stage alone."""
        known = {
            key: os.environ.get(f"PIP_{key.upper()}") for key in ("index_url", "extra_index_url", "cert")
        }
        volumes = []
        if known["cert"]:
            volumes.append(f"{known['cert']}:/run/cert.pem:ro")
            known["cert"] = "/run/cert.pem"
        lines = [f"{key.replace('_', '-')} = {value}" for key, value in known.items() if value]
        (self.folder / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
        volumes.append(f"{self.folder}/pip.conf:/etc/pip.conf:ro")
        return [word for volume in volumes for word in ("--volume", volume)]

    def _run(self, *words: str) -> str:
        done = subprocess.run(words, env={
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "BUILDAH_ISOLATION": "chroot",
        }, capture_output=True, text=True, check=False, timeout=LIMIT_S)  # fmt: skip
        if done.returncode != 0:
            raise EngineError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()
