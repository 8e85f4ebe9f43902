"""The wheel of the image, built from exactly the files that the image's first stage sees, works without the checkout."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.packaging.image import ROOT, CopyError, copy_for_builder, instructions

pytest.importorskip("hatchling", reason="hatchling is not installed: make install")

MANIFESTS = "rescheduler/_manifests"


def python(*words, where, path=""):
    """Runs this interpreter away from the checkout; ``path`` comes before everything that is installed."""
    kept = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    beside = [entry for entry in kept if entry and not (Path(entry) / "rescheduler").is_dir()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(path), *beside]))}
    done = subprocess.run(
        [sys.executable, "-P", *words], cwd=where, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """As ``pip install .`` in the Dockerfile makes it."""
    context, out = tmp_path_factory.mktemp("context"), tmp_path_factory.mktemp("wheel")
    copy_for_builder(context)
    build = f"import hatchling.build as b; b.build_wheel({str(out)!r})"
    python("-c", build, where=context)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    shutil.unpack_archive(wheel, folder, "zip")
    return folder


@pytest.fixture(scope="module")
def source_files():
    tracked = [p.relative_to(ROOT) for name in ("rescheduler", "manifests") for p in (ROOT / name).rglob("*")]
    return {p for p in tracked if (ROOT / p).is_file() and "__pycache__" not in p.parts}


def test_the_wheel_has_the_package_and_the_manifests_and_nothing_else(wheel, source_files):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    expected = {
        str(p).replace("manifests/", f"{MANIFESTS}/", 1) if p.parts[0] == "manifests" else str(p)
        for p in source_files
    }
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert {"rescheduler/py.typed", f"{MANIFESTS}/kustomization.yaml"} <= expected


def test_the_unpacked_wheel_runs_by_itself(unpacked, tmp_path):
    place = python("-c", "import rescheduler; print(rescheduler.__file__)", where=tmp_path, path=unpacked)
    assert Path(place.strip()).is_relative_to(unpacked)
    (metadata,) = unpacked.glob("*.dist-info")
    text = (metadata / "entry_points.txt").read_text()
    scripts = dict(re.findall(r"^(\S+) = (\S+:\S+)$", text, re.MULTILINE))
    assert set(scripts) == {"rescheduler", "kubectl-rescheduler", "kubectl_complete-rescheduler"}
    assert scripts["rescheduler"] == scripts["kubectl-rescheduler"]
    complete, _, function = scripts["kubectl_complete-rescheduler"].partition(":")
    call = f"import sys; sys.argv[1:] = ['vers']; from {complete} import {function}; {function}()"
    assert python("-c", call, where=tmp_path, path=unpacked) == "version\tPrint the version.\n:4\n"
    module, _, function = scripts["rescheduler"].partition(":")
    call = f"from {module} import {function}; {function}(['version'])"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert python("-c", call, where=tmp_path, path=unpacked).startswith(f"rescheduler {version} ")


def test_the_manifests_of_the_wheel_are_found(unpacked, tmp_path):
    call = "from rescheduler.kube.installation import FOLDER, load; print(FOLDER, len(load()))"
    folder, count = python("-c", call, where=tmp_path, path=unpacked).split()
    assert Path(folder) == unpacked / MANIFESTS
    assert int(count) > 20


def test_the_sandbox_has_a_wheel_of_its_own_and_no_requirement_that_somebody_else_could_publish(tmp_path):
    folder = tmp_path / "sandbox"
    shutil.copytree(ROOT / "sandbox", folder, ignore=shutil.ignore_patterns("__pycache__"))
    python("-c", f"import hatchling.build as b; b.build_wheel({str(tmp_path)!r})", where=folder)
    (built,) = tmp_path.glob("kube_sandbox-*.whl")
    with zipfile.ZipFile(built) as archive:
        names = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {"kube_sandbox"}
    projects = [
        tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"] for path in (".", "sandbox")
    ]
    assert projects[0]["version"] == projects[1]["version"]
    listed = {
        re.match(r"[\w.-]+", requirement)[0]
        for project in projects
        for requirements in (project["dependencies"], *project.get("optional-dependencies", {}).values())
        for requirement in requirements
    }
    assert not listed & {"rescheduler", "kube-sandbox"}


def test_a_folder_that_the_wheel_needs_and_the_image_leaves_out_is_found(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    for name in ("Dockerfile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, root / name)
    shutil.copytree(ROOT / "manifests", root / "manifests")
    (root / ".dockerignore").write_text((ROOT / ".dockerignore").read_text().replace("!manifests\n", ""))
    with pytest.raises(CopyError, match="COPY manifests"):
        copy_for_builder(tmp_path / "context", root)


def test_the_source_distribution_builds_the_same_wheel(wheel, tmp_path):
    build = f"import hatchling.build as b; b.build_sdist({str(tmp_path)!r})"
    python("-c", build, where=ROOT)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    assert {name.partition("/")[0] for name in names} == {
        *("rescheduler", "manifests", "pyproject.toml", "constraints.txt"),
        *("README.md", "LICENSE", "CHANGELOG.md", ".gitignore", "PKG-INFO"),
    }
    (folder,) = (p for p in tmp_path.iterdir() if p.is_dir())
    python("-c", f"import hatchling.build as b; b.build_wheel({str(tmp_path)!r})", where=folder)
    (again,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(wheel) as other:
        assert set(one.namelist()) == set(other.namelist())


def test_the_image_installs_what_is_pinned_and_no_extra_unless_asked():
    text = (ROOT / "Dockerfile").read_text()
    steps = instructions(text)
    assert ("ARG", "EXTRAS=") in steps
    (install,) = (arguments for word, arguments in steps if word == "RUN" and "pip install" in arguments)
    assert "--constraint constraints.txt" in install
    target = re.search(r'install .*?"(\.[^"]*)"', install)[1]

    def expanded(extras):
        return subprocess.run(
            ["sh", "-c", f'printf %s "{target}"'],
            env={"EXTRAS": extras},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert [expanded(e) for e in ("", "webhook", "webhook,zstd")] == [".", ".[webhook]", ".[webhook,zstd]"]
    assert ("USER", "65532:65532") in steps
    assert [arguments.partition(" ")[0] for word, arguments in steps if word == "FROM"] == ["${PYTHON}"] * 2
