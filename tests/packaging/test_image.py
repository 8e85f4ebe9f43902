"""The image, built by carrying out the Dockerfile's own steps in a clean folder, runs by itself: in the nightly run.

What the steps name and which files the image has, test_wheel.py looks at for each change.
"""

import re
import subprocess
import sys
import tomllib

import pytest

from tests.packaging.image import ROOT
from tests.packaging.replay import RunError, build
from tests.seeds import NIGHTLY

pytestmark = pytest.mark.skipif(
    not NIGHTLY, reason="the image is built by the nightly run: a minute of CPU time"
)

AWAY = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|timed out|Temporary failure|Connection (refused|reset|aborted)|"
    r"NewConnectionError|ProxyError|SSLError|IncompleteRead|HTTPError|Max retries|50[0234] ",
)
PINNED = re.search(r"^click==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Skips where packages cannot be had: one small one is tried."""
    words = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--retries", "1", "--dest"]
    try:
        done = subprocess.run(
            [sys.executable, *words, str(tmp_path_factory.mktemp("probe")), PINNED],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("the package index does not answer: the image is not built")
    if done.returncode != 0:
        pytest.skip("no package index can be reached: the image is not built")


@pytest.fixture(scope="module")
def image(index, tmp_path_factory):
    """As ``docker build .`` makes it."""
    try:
        return build(tmp_path_factory.mktemp("image") / "machine", {})
    except (RunError, subprocess.TimeoutExpired) as error:
        if isinstance(error, subprocess.TimeoutExpired) or AWAY.search(str(error)):
            pytest.skip("the package index went away: the image is not built")
        raise


def test_its_entrypoint_prints_the_version(image):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    done = image.run([*image.entrypoint, "version"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"rescheduler {version} ")


@pytest.mark.parametrize("command", ["run", "uninstall", "plan"])
def test_its_commands_can_be_started(image, command):
    done = image.run([*image.entrypoint, command, "--help"])
    assert done.returncode == 0, done.stderr
    assert f"rescheduler {command}" in done.stdout


def test_without_a_cluster_its_command_ends_in_a_sentence(image):
    done = image.run([*image.entrypoint, *image.command, "--kubeconfig", "/nowhere"])
    assert done.returncode == 2, done.stderr
    assert "/nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_has_the_manifests_and_no_more_than_it_needs(image):
    (packages,) = image.folder.glob("opt/rescheduler/lib/python3*/site-packages")
    assert (packages / "rescheduler" / "_manifests" / "kustomization.yaml").is_file()
    assert not (packages / "pip").exists()
    assert not (packages / "kubernetes" / "aio").exists()
    assert not (image.folder / "build").exists()
