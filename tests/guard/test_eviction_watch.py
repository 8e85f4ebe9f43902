"""Where Evictions of lifecycle.k8s.io are looked for: only where they are served and may be read, in the most stable version."""

import json

import pytest

from rescheduler.controller.eviction_watch import readable_evictions
from rescheduler.kube.errors import ForbiddenError


class Server:
    """Answers what is served. ``fault``: that of the list of Evictions."""

    def __init__(self, *versions, fault=None):
        self.versions, self.fault = versions, fault

    def get(self, path, query=None):
        if path == "/apis":
            versions = [{"groupVersion": version} for version in self.versions]
            return json.dumps({"kind": "APIGroupList", "groups": [{"versions": versions}]}).encode()
        if self.fault:
            raise self.fault
        return b"{}"


@pytest.mark.parametrize(("versions", "path"), [
    (("lifecycle.k8s.io/v1alpha1",), "/apis/lifecycle.k8s.io/v1alpha1/evictions"),
    (("lifecycle.k8s.io/v1alpha1", "lifecycle.k8s.io/v1beta1"), "/apis/lifecycle.k8s.io/v1beta1/evictions"),
])  # fmt: skip
def test_the_most_stable_version_that_is_served_is_read(versions, path):
    assert readable_evictions(Server("apps/v1", *versions)).collection_path == path


def test_where_they_are_not_served_or_the_component_is_not_installed_nothing_is_watched():
    assert readable_evictions(Server("apps/v1", "lifecycle.k8s.io/v2")) is None
    forbidden = ForbiddenError(403, "Forbidden", "evictions is forbidden")
    assert readable_evictions(Server("lifecycle.k8s.io/v1alpha1", fault=forbidden)) is None
