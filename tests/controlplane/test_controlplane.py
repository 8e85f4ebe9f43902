"""The test control plane itself: what it promises to the tests that stand on it."""

import subprocess

import pytest

from harness.controlplane.api import Api
from harness.controlplane.binaries import BinariesMissing, build, cache_folder, find
from harness.controlplane.other_versions import module_text
from harness.controlplane.world import World

REAL = pytest.mark.realcluster


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "plane") as world:
        yield world


@REAL
def test_its_version_is_the_one_that_is_promised(control_plane):
    assert control_plane.api().get("/version").body["gitVersion"] == "v1.37.0"


@REAL
def test_kubectl_works_with_its_kubeconfig(control_plane):
    command = [
        control_plane.kubectl,
        "--kubeconfig",
        str(control_plane.kubeconfig),
        "get",
        "namespaces",
        "-o",
        "name",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "namespace/default" in done.stdout


@REAL
def test_a_service_account_has_only_its_own_rights(control_plane):
    api = Api.from_kubeconfig(control_plane.kubeconfig_for("rescheduler", "rescheduler"))
    assert api.get("/api/v1/pods").status == 200
    assert api.get("/api/v1/secrets").status == 403


@REAL
def test_a_dead_scheduler_is_started_again(control_plane, world):
    before = control_plane.scheduler_deaths
    control_plane.crash_scheduler()
    world.wait(lambda: control_plane.scheduler_deaths == before + 1)
    node = world.node("a")
    world.pod("p")
    assert world.wait_bound("p", seconds=30) == node


@REAL
def test_without_a_scheduler_nothing_is_bound(control_plane, world):
    control_plane.kill_scheduler()
    try:
        node = world.node("a")
        pod = world.pod("p")
        world.api.patch(world.path("pods", "p"), {"metadata": {"labels": {"seen": "yes"}}}).expect(200)
        assert "nodeName" not in world.get_pod("p")["spec"]
    finally:
        control_plane.start_scheduler()
    assert world.wait_bound(pod["metadata"]["name"], seconds=30) == node


def test_a_folder_that_lacks_programs_is_named(monkeypatch, tmp_path):
    (tmp_path / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(
        BinariesMissing, match="has no kube-apiserver, kube-controller-manager, kube-scheduler"
    ):
        find()


@pytest.mark.parametrize("version", ["1.30", "v1.30", "v1.35.4; ls", "latest"])
def test_what_is_not_a_version_is_not_built(monkeypatch, tmp_path, version):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "go").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BinariesMissing, match="is not a version like v1"):
        build([].append, version)
    assert [p.name for p in tmp_path.iterdir()] == ["go"]


def test_each_version_has_a_folder_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert len({cache_folder(), cache_folder("v1.35.4"), cache_folder("v1.30.14")}) == 3


def test_staging_modules_are_those_of_the_version(monkeypatch):
    answers = [
        {"GoMod": "/somewhere/go.mod"},
        {
            "Go": "1.25.0",
            "Require": [
                {"Path": "k8s.io/api", "Version": "v0.0.0"},
                {"Path": "k8s.io/klog/v2", "Version": "v2.130.1"},
            ],
        },
    ]
    monkeypatch.setattr("harness.controlplane.other_versions._asked", lambda *_: answers.pop(0))
    assert module_text("v1.35.4").splitlines() == [
        "module rescheduler.dev/compatibility",
        "go 1.25.0",
        "require k8s.io/kubernetes v1.35.4",
        "replace k8s.io/api => k8s.io/api v0.35.4",
    ]


def test_a_machine_without_go_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BinariesMissing, match="Go is not installed") as caught:
        find()
    assert "\n" not in str(caught.value)
    assert cache_folder().is_relative_to(tmp_path)
