"""Where the real control plane's programs come from: KUBEBUILDER_ASSETS, the cache, or ``go build``.

Promises: a folder with all the programs, or ``BinariesMissing`` with one plain sentence that says what to do.
Never builds without being asked (a build takes about 11 minutes on 2 cores): ``find`` looks, ``build`` builds.
Other versions of Kubernetes have a folder each; KUBEBUILDER_ASSETS chooses it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.controlplane import other_versions

KUBERNETES_VERSION: Final = "v1.37.0"
ETCD_VERSION: Final = "v3.7.3"
KUBERNETES_PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
PROGRAMS: Final = ("etcd", *KUBERNETES_PROGRAMS)
NEEDED: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""kubectl is taken from the PATH where the folder has none."""
_CHEAP_BUILD: Final = {"CGO_ENABLED": "0", "GOWORK": "off", "GOGC": "off", "GOMEMLIMIT": "1GiB"}
"""Compilers that are done before they fill a gigabyte, and write nothing for debuggers, need a fifth less CPU (measured on Go 1.26)."""

MODULES: Final = Path(__file__).resolve().parents[2] / "tests" / "controlplane"


class BinariesMissing(Exception):  # noqa: N818  a state of the machine, not a fault of the program
    """The control plane's programs are not there; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with the programs."""

    folder: Path

    def path(self, program: str) -> str:
        """The program's path; from the PATH where the folder lacks it."""
        inside = self.folder / program
        return str(inside) if inside.exists() else shutil.which(program) or str(inside)

    @property
    def kubernetes_minor(self) -> int:
        """35 of v1.35.4, as kube-apiserver says."""
        command = [self.path("kube-apiserver"), "--version"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603  our program
        return int(said.removeprefix("Kubernetes v1.").split(".")[0])


def cache_folder(version: str = KUBERNETES_VERSION) -> Path:
    """The folder that ``build`` fills, named after the versions in it."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "rescheduler" / "controlplane" / f"kubernetes-{version}-etcd-{ETCD_VERSION}"


def find() -> Binaries:
    """The programs, if they are there. Raises BinariesMissing otherwise."""
    asked = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(asked) if asked else cache_folder()
    absent = [program for program in NEEDED if not (folder / program).exists()]
    if not absent:
        return Binaries(folder)
    if asked:
        raise BinariesMissing(f"KUBEBUILDER_ASSETS={asked} has no {', '.join(absent)}.")
    if shutil.which("go") is None:
        raise BinariesMissing(
            "The real control plane is not built and Go is not installed: its tests are skipped. "
            "Install Go and run `python -m harness.controlplane build`, or set KUBEBUILDER_ASSETS."
        )
    raise BinariesMissing(
        "The real control plane is not built: run `python -m harness.controlplane build` "
        "(about 11 minutes, once)."
    )


def build(report: Callable[[str], None], version: str = KUBERNETES_VERSION) -> Binaries:
    """Builds what is missing into the cache folder; ``report`` gets one line per program.

    Of another ``version`` than the one that the tests are written for there is no kubectl, and its module is
    made on the spot. Raises BinariesMissing where Go or the module files are missing or a build fails.
    """
    if shutil.which("go") is None:
        raise BinariesMissing(
            "Go is not installed: the real control plane cannot be built, its tests are skipped."
        )
    if not (MODULES / "kubernetes" / "go.mod").exists():
        raise BinariesMissing(
            f"{MODULES} has no Go modules: the real control plane is built from a source checkout."
        )
    if not other_versions.WELL_FORMED.fullmatch(version):
        raise BinariesMissing(f"{version} is not a version like {KUBERNETES_VERSION}.")
    folder = cache_folder(version)
    programs = PROGRAMS if version == KUBERNETES_VERSION else NEEDED
    for number, program in enumerate(programs, start=1):
        there = (folder / program).exists()
        report(f"[{number}/{len(programs)}] {program}: {'already there' if there else 'building'}")
        if not there:
            _build_one(program, folder, version)
    return Binaries(folder)


def _build_one(program: str, folder: Path, version: str) -> None:
    if program == "etcd":
        compiled(folder / program, "go.etcd.io/etcd/server/v3", "-ldflags=-s -w", folder=MODULES / "etcd")
        return
    module, flags = MODULES / "kubernetes", [f"-ldflags=-s -w {_version_flags(version)}"]
    if version != KUBERNETES_VERSION:
        module = _module_of(version, folder)
        flags.append("-mod=mod")
    compiled(folder / program, f"k8s.io/kubernetes/cmd/{program}", *flags, folder=module)


def compiled(target: Path, package: str, *flags: str, folder: Path, toolchain: str = "") -> Path:
    """The program at ``target``, built in the Go module of ``folder`` unless it is there; a broken build leaves nothing.

    ``toolchain``: another Go than the machine's, which goes and gets it. Raises BinariesMissing.
    """
    if target.exists():
        return target
    if shutil.which("go") is None:
        raise BinariesMissing(f"Go is not installed: {target.name} cannot be built.")
    target.parent.mkdir(parents=True, exist_ok=True)
    half_done = target.with_name(f".{target.name}.{os.getpid()}")
    environment = os.environ | _CHEAP_BUILD
    if toolchain:
        environment["GOTOOLCHAIN"] = toolchain
    build = ["go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false"]
    command = [*build, *flags, "-o", str(half_done), package]
    done = subprocess.run(command, cwd=folder, env=environment, check=False)  # noqa: S603  constant command
    if done.returncode != 0:
        half_done.unlink(missing_ok=True)
        raise BinariesMissing(f"Building {target.name} failed (go build ended with {done.returncode}).")
    return half_done.replace(target)


def _module_of(version: str, folder: Path) -> Path:
    """The folder of a Go module of that version, beside the programs that are built from it."""
    module = folder / "module"
    if not (module / "go.mod").exists():
        try:
            text = other_versions.module_text(version)
        except other_versions.NoSuchVersion as error:
            raise BinariesMissing(str(error)) from error
        module.mkdir(parents=True, exist_ok=True)
        (module / "go.mod").write_text(text)
    return module


def _version_flags(version: str) -> str:
    """Tells the programs their version: a plain build calls itself v0.0.0 and refuses emulation versions."""
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())
