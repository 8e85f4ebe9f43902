"""``rescheduler uninstall`` as people type it: it names the cluster, refuses before it changes anything, and says if there is nothing."""

import pytest

from harness.controlplane.api import Api, HttpTransport
from kube_sandbox.sandbox import Sandbox


def test_a_controller_outside_is_found_before_anything_is_changed(work, command):
    done = command("uninstall", "--kubeconfig", work.kubeconfig)
    assert done.exit_code == 1
    assert "renews the Lease; stop that process and run this again. Nothing was changed." in done.stderr
    assert done.stdout.startswith(f"The cluster: {work.cluster.transport_url}")
    policies = work.api.get("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies").items
    assert "gate.rescheduler.dev" in {one["metadata"]["name"] for one in policies}


def test_where_nothing_is_installed_it_says_so(tmp_path, command):
    kubeconfig = tmp_path / "kubeconfig"
    with Sandbox() as cluster:
        server = cluster.start(kubeconfig=kubeconfig)
        done = command("uninstall", "--kubeconfig", kubeconfig)
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines()[-1] == (
            f"rescheduler is not installed in {server.url}: nothing of it was found."
        )


@pytest.mark.parametrize("words", [("uninstall", "--yes", "-n"), ("release-gates", "--controller-namespace")])
def test_a_namespace_without_the_controller_is_refused_with_the_one_that_has_it(work, command, words):
    """Else the policies of a controller at work would go, or its gated pods."""
    done = command(*words, "elsewhere", "--kubeconfig", work.kubeconfig)
    assert done.exit_code == 2, done.output
    assert "the controller is in namespace rescheduler" in done.stderr
    assert done.stdout == ""


def test_the_lease_of_a_tenant_sends_nobody_to_its_namespace(tmp_path, command):
    kubeconfig = tmp_path / "kubeconfig"
    with Sandbox() as cluster:
        api = Api(HttpTransport(cluster.start(kubeconfig=kubeconfig).url))
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "rescheduler", "namespace": "tenant"},
        }
        api.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}
        ).expect()
        api.create("/apis/coordination.k8s.io/v1/namespaces/tenant/leases", lease).expect()
        done = command("uninstall", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    assert "is not installed" in done.stdout
