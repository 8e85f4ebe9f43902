"""What a release publishes is built without a network, complete, and named in the checksums."""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from harness import builders as b
from harness import krew, publish
from harness.controlplane import manifests
from rescheduler import __version__

pytest.importorskip("hatchling", reason="hatchling is not installed: make install")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    return {path.name: path for path in publish.publish(folder)}


def named(made, end):
    (found,) = [path for name, path in made.items() if name.endswith(end)]
    return found


def test_every_file_is_in_the_checksums(made):
    lines = dict(reversed(line.split()) for line in made[publish.SUMS].read_text().splitlines())
    assert lines.keys() == made.keys() - {publish.SUMS}
    for name, digest in lines.items():
        assert hashlib.sha256(made[name].read_bytes()).hexdigest() == digest


def test_the_wheel_has_the_page_and_the_source_the_manifests(made):
    names = zipfile.ZipFile(named(made, ".whl")).namelist()
    assert "rescheduler/reports/html/assets/live.html" in names
    with tarfile.open(made[f"rescheduler-{__version__}.tar.gz"]) as source:
        assert any(name.endswith("manifests/crds/reservations.yaml") for name in source.getnames())


def test_the_chart_has_its_schema_and_the_manifests(made):
    charts = [path for name, path in made.items() if name.endswith(".tgz")]
    if not charts:
        pytest.skip("helm is not built")
    with tarfile.open(charts[0]) as chart:
        names = set(chart.getnames())
    assert {
        "rescheduler/values.schema.json",
        "rescheduler/templates/NOTES.txt",
        "rescheduler/manifests/crds/reservations.yaml",
    } <= names


def test_the_krew_plugin_runs_with_nothing_but_python(made, tmp_path):
    spec = yaml.safe_load(made[krew.MANIFEST].read_text())["spec"]
    (here,) = spec["platforms"]
    archive = made[here["uri"].removeprefix(f"{publish.URL}/")]
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == here["sha256"]
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "store", filter="data")
    # As krew does: a link on the PATH.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl-rescheduler").symlink_to(tmp_path / "store" / here["bin"])
    bare = {
        "PATH": f"{tmp_path / 'bin'}:{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path),
    }

    def run(*words):
        line = ["kubectl-rescheduler", *words]
        return subprocess.run(line, env=bare, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert f" {spec['version'].removeprefix('v')} " in run("version").stdout
    (tmp_path / "wrong.yaml").write_text("kind: Nothing\n")
    refused = run("validate", "wrong.yaml")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    dump = tmp_path / "nodes.json"
    dump.write_text(json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [b.node("n1").manifest()]}))
    assert run("plan", "--from", str(dump)).returncode == 0


@pytest.fixture
def started(tmp_path):
    """Runs the plugin's script, with packages for 3.12 and 3.13, on a PATH with only these Pythons: (the file that ran, stderr)."""

    def run(*pythons, python3=""):
        folder = tmp_path / "plugin"
        path = folder / "path"
        path.mkdir(parents=True)
        for name in ("dirname", "readlink", "sh"):
            (path / name).symlink_to(shutil.which(name))
        for minor in ("3.12", "3.13"):
            (folder / f"lib/python{minor}").mkdir(parents=True)
        for name in pythons:
            script(path / name, f'echo {name} "$@"')
        if python3:
            script(path / "python3", f'case "$1" in -c) echo {python3};; *) echo python3 "$@";; esac')
        words = {
            "minors": "3.13 3.12", "named": "3.13 or 3.12", "command": "x", "url": "https://h",
            "wheel": "r.whl",
        }  # fmt: skip
        script(folder / "start", krew._START.format(**words).removeprefix("#!/bin/sh\n"))
        line = [folder / "start", "plan"]
        done = subprocess.run(line, env={"PATH": str(path)}, capture_output=True, text=True, check=False)
        return done.stdout.partition(" ")[0], done.stderr

    return run


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_plugin_takes_the_newest_python_that_it_has_packages_for(started):
    assert started("python3.11", "python3.12", "python3.13") == ("python3.13", "")


def test_the_plugin_takes_a_python3_of_a_minor_that_it_has(started):
    assert started("python3.11", python3="3.12") == ("python3", "")


@pytest.mark.parametrize(("python3", "said"), [("3.14", "3.14"), ("", "missing")])
def test_without_a_python_that_it_has_packages_for_the_plugin_says_what_to_install(started, python3, said):
    ran, told = started("python3.11", python3=python3)
    assert ran == ""
    assert told == (
        "error: this plugin is built for Python 3.13 or 3.12, and none of these is on the PATH "
        f"(python3 is {said}): install one, or the wheel, which any Python from 3.11 runs: pip install https://h/r.whl\n"
    )


@pytest.mark.parametrize("name", publish.OVERLAYS)
def test_one_file_installs_what_its_overlay_does(made, name):
    objects = list(yaml.safe_load_all(made[f"{name}.yaml"].read_text()))
    assert objects == manifests.load(manifests.FOLDER / publish.OVERLAYS[name])
    assert any(one["kind"] == "CustomResourceDefinition" for one in objects)
