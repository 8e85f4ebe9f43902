"""What a release publishes is built without a network, complete, and named in the checksums."""

import hashlib
import tarfile
import zipfile

import pytest
import yaml

from harness import publish
from harness.controlplane import manifests

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
    with tarfile.open(named(made, ".tar.gz")) as source:
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


@pytest.mark.parametrize("name", publish.OVERLAYS)
def test_one_file_installs_what_its_overlay_does(made, name):
    objects = list(yaml.safe_load_all(made[f"{name}.yaml"].read_text()))
    assert objects == manifests.load(manifests.FOLDER / publish.OVERLAYS[name])
    assert any(one["kind"] == "CustomResourceDefinition" for one in objects)
