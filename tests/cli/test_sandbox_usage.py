"""The sandbox serves measured usage of its nodes when asked to."""

import subprocess
import sys

import pytest

from rescheduler.kube.client import KubeApi
from rescheduler.kube.connection import connect
from rescheduler.kube.metrics_api import node_usage
from tests.waiting import until

_PROGRAM = "from rescheduler.cli.main import main; main()"


@pytest.mark.slow
@pytest.mark.parametrize(("extra", "measured"), [((), []), (("--usage", "0.5"), ["node-1", "node-2"])])
def test_usage_is_measured_on_request(tmp_path, extra, measured):
    command = [sys.executable, "-c", _PROGRAM, "sandbox", "--nodes", "2", "--empty", *extra]
    path = str(tmp_path / "kubeconfig")
    with subprocess.Popen(
        [*command, "--kubeconfig-file", path], stdout=subprocess.PIPE, text=True
    ) as sandbox:
        try:
            assert sandbox.stdout.readline().strip() == path
            api = KubeApi(connect(path))
            until(lambda: sorted(u.node for u in node_usage(api)) == measured)
        finally:
            sandbox.terminate()
