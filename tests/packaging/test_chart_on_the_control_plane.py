"""The Helm chart on a real control plane: installed, tested by ``helm test``, upgraded and removed."""

import re
import subprocess
import sys

import pytest
import yaml

from harness.controlplane.servers import ControlPlane
from tests.packaging.image import ROOT
from tests.waiting import until

pytestmark = pytest.mark.realcluster

CHART = ROOT / "charts" / "rescheduler"
PODS = "/api/v1/namespaces/rescheduler/pods"
CONFIG_MAP = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
HEAD = {"apiVersion": "rescheduler.dev/v1alpha1", "kind": "ReschedulerConfiguration"}
CRITICAL_PODS_NEED_A_QUOTA = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - {scopeName: PriorityClass, operator: In, values: [system-node-critical, system-cluster-critical]}
"""


MOUNTED = """
set -e
root=$1 volume=$2 path=$3
shift 3
mount -t tmpfs none "$root"
for each in /*; do [ -d "$each" ] && mkdir "$root$each" && mount --rbind "$each" "$root$each"; done
mkdir -p "$root$path"
mount --bind "$volume" "$root$path"
exec chroot "$root" "$@"
"""
"""Starts a program with a folder where the pod has its volume; nothing outside of it sees that."""


def run_helm_test(api, line, folder):
    """``helm test``, with this process as kubelet of its pod: exit code and output of helm, and the log of the pod."""
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as helm:
        try:
            code, logs = run_pod(api, "rescheduler-validate", folder)
            phase = {"phase": "Failed" if code else "Succeeded"}
            api.patch(f"{PODS}/rescheduler-validate/status", {"status": phase}).expect(200)
            said, _ = helm.communicate(timeout=120)
        finally:
            helm.kill()
    return helm.returncode, said, logs


def run_pod(api, name, folder):
    """Starts the program of the image with the arguments of the pod, with its ConfigMap where it is mounted."""

    def pending():
        found = api.get(f"{PODS}/{name}")
        return found.body if found.ok and found.body.get("status", {}).get("phase") == "Pending" else None

    spec = until(pending)["spec"]
    (container,) = spec["containers"]
    (mount,), (volume,) = container["volumeMounts"], spec["volumes"]
    assert "command" not in container, "the entry point of the image is in the Dockerfile"
    config_map = api.get(CONFIG_MAP).expect().body
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    folder = folder / "volume"
    folder.mkdir(exist_ok=True)
    for key, value in config_map["data"].items():
        (folder / key).write_text(value)
    root = folder.with_name("root")
    root.mkdir(exist_ok=True)
    program = [sys.executable, "-c", "from rescheduler.cli.entry import main; main()", *container["args"]]
    line = ["unshare", "-rm", "sh", "-c", MOUNTED, "sh", str(root), str(folder), mount["mountPath"], *program]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_it_is_installed_and_removed_on_a_real_control_plane(programs, control_plane, tmp_path):
    """Also where critical pods need a quota, and under Pod Security "restricted"."""
    (tmp_path / "admission.yaml").write_text(CRITICAL_PODS_NEED_A_QUOTA)
    flags = (f"--admission-control-config-file={tmp_path / 'admission.yaml'}",)
    with ControlPlane(binaries=control_plane.binaries, apiserver_flags=flags) as plane:

        def helm_line(*words):
            return [programs[0], *words, "--namespace", "rescheduler", "--kubeconfig", str(plane.kubeconfig)]

        def helm_command(*words):
            done = subprocess.run(helm_line(*words), capture_output=True, text=True, check=False, timeout=300)
            assert done.returncode == 0, done.stderr

        helm_command("install", "rescheduler", str(CHART), "--create-namespace")
        until(lambda: plane.api().get("/apis/rescheduler.dev/v1alpha1/podmigrations").ok)  # a moment later
        changed = ("--set", "highlyAvailable=true")
        helm_command("upgrade", "rescheduler", str(CHART), *changed)
        path = "/apis/apps/v1/namespaces/rescheduler/deployments/rescheduler"
        assert plane.api().get(path).body["spec"]["replicas"] == 2
        until(lambda: len(plane.api().get(PODS).items) >= 2)
        assert {pod["spec"]["priorityClassName"] for pod in plane.api().get(PODS).items} == {
            "system-cluster-critical"
        }
        enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        plane.api().patch("/api/v1/namespaces/rescheduler", enforce).expect(200)
        tested = helm_line("test", "rescheduler", "--timeout", "2m")
        code, said, logs = run_helm_test(plane.api(), tested, tmp_path)
        assert (code, logs) == (0, "/configuration/config.yaml: valid\n"), said
        assert re.search(r"TEST SUITE: +rescheduler-validate\n", said)
        assert re.search(r"Phase: +Succeeded", said)
        wrong = yaml.safe_dump(HEAD | {"policies": [{"name": "NodeTains"}]})
        plane.api().patch(CONFIG_MAP, {"data": {"config.yaml": wrong}}).expect(200)
        code, said, logs = run_helm_test(plane.api(), tested, tmp_path)
        assert code == 1, said
        assert "rescheduler-validate failed" in said
        assert "/configuration/config.yaml:4: policies[0].name" in logs
        helm_command("uninstall", "rescheduler")
        assert not plane.api().get(path).ok
