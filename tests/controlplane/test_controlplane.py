"""The test control plane itself: what it promises to the tests that stand on it."""

import pytest

from harness.controlplane.binaries import BinariesMissing, cache_folder, find


@pytest.mark.realcluster
def test_its_version_is_the_one_that_is_promised(control_plane):
    assert control_plane.api().get("/version").body["gitVersion"] == "v1.37.0"


def test_a_machine_without_go_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BinariesMissing, match="Go is not installed") as caught:
        find()
    assert "\n" not in str(caught.value)
    assert cache_folder().is_relative_to(tmp_path)
