"""A second controller with a namespace of its own: it ends at once, before it takes what the first one holds for lost."""

import pytest

from kube_sandbox.installing import install
from kube_sandbox.sandbox import Sandbox
from rescheduler.controller.run import Controller, MissingParts, Options


def test_a_controller_does_not_start_beside_the_policies_of_another_one(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "{apiVersion: rescheduler.dev/v1alpha1, kind: ReschedulerConfiguration, policies: [], reservations: {namespace: second}}"
    )
    cluster = Sandbox()
    install(cluster.transport)
    words = r"reservations.namespace is second, but .* in namespace rescheduler, .* uninstall --namespace rescheduler"
    with pytest.raises(MissingParts, match=words):
        Controller(cluster.transport, Options(config_file=str(path), serve=False)).run()
