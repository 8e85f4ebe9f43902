"""The controller works without extras, and what needs one says which."""

import json
import subprocess
import sys
import tomllib

import pytest

from kube_sandbox.installing import install
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.cli.main import main
from rescheduler.extras import PACKAGES, Extra, MissingExtraError, needs
from tests.packaging.image import ROOT

BLOCKED = sorted(
    {package for packages in PACKAGES.values() for package in packages} | {"pykube", "kube_sandbox"}
)
WITHOUT = f"""
import json, sys
sys.modules.update(dict.fromkeys({BLOCKED!r}))
from rescheduler.cli.main import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        if end.code:
            raise
"""


def without_extras(*lines):
    """The command lines one after the other, until one fails, in a process where no package of an extra can be imported."""
    command = [sys.executable, "-c", WITHOUT, json.dumps(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_extras_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    assert extras == {*Extra, "pykube", "all"}
    listed = {package for extra in extras - {"all"} for package in project["optional-dependencies"][extra]}
    assert set(project["optional-dependencies"]["all"]) == listed


def test_help_lists_every_command():
    done = without_extras(["--help"])
    assert done.returncode == 0, done.stderr
    for name in main.commands:
        assert f"  {name} " in done.stdout
    assert done.stdout.count("it is in the package kube-sandbox") == 2


def test_commands_that_need_no_extra_can_be_imported():
    done = without_extras(*([name, "--help"] for name in sorted(set(main.commands) - {"demo", "sandbox"})))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["demo", "--seed", "2"], ["sandbox", "--help"]])
def test_commands_of_the_sandbox_name_its_package(words):
    done = without_extras(words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"'rescheduler {words[0]}' is in the package kube-sandbox, which is not installed" in done.stderr


def test_a_dump_that_zstd_has_compressed_names_the_extra(tmp_path):
    dump = tmp_path / "nodes.json.zst"
    dump.write_bytes(b"\x28\xb5\x2f\xfd")
    done = without_extras(["plan", "--from", str(dump)])
    assert done.returncode == 2
    assert str(dump) in done.stderr
    assert "needs the extra 'zstd'" in done.stderr


def test_a_proof_names_the_extra_before_anything_is_read():
    done = without_extras(["plan", "--prove", "--from", "nowhere.json"])
    assert done.returncode == 2
    assert "'rescheduler plan --prove' needs the extra 'prove'" in done.stderr
    assert "pip install '.[prove]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with Sandbox([SandboxNode(name="n1")]) as cluster:
        cluster.start(kubeconfig=path)
        install(cluster.transport)
        yield str(path)


def test_plan_and_run_need_no_extra(kubeconfig, tmp_path):
    done = without_extras(["plan", "--kubeconfig", kubeconfig], ["run", "--once", "--kubeconfig", kubeconfig])
    assert done.returncode == 0, done.stderr


def test_the_webhook_names_the_extra(kubeconfig, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\ngate: {mode: Webhook}\nserver: {port: 0}\n"
    )
    done = without_extras(["run", "--once", "--kubeconfig", kubeconfig, "--config", str(config)])
    assert done.returncode == 2
    assert "needs the extra 'webhook'" in done.stderr
    assert "--build-arg EXTRAS=webhook" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_inside_an_extra_is_not_taken_for_a_missing_one():
    with pytest.raises(ModuleNotFoundError, match="nowhere"), needs(Extra.ZSTD, "a test"):
        import nowhere  # noqa: F401, PLC0415 - the fault
    with pytest.raises(MissingExtraError), needs(Extra.ZSTD, "a test"):
        raise ModuleNotFoundError("No module named 'zstandard.backend'", name="zstandard.backend")
