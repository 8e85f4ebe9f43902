"""Templates of which the API server would take no pod: Invalid in its own words, on both clusters."""

import pytest
from reserving import of_web, phase, placeholders, reserve

from harness.controlplane.world import World, condition
from rescheduler.kube.errors import ForbiddenError, RejectedError
from rescheduler.kube.pod_creation import invalid_words


@pytest.fixture
def world(api):
    with World(api, "wrong") as world:
        world.node("one", cpu="4")
        yield world


def template(resources, **container):
    return {"containers": [{"name": "main", "image": "pause", "resources": resources, **container}]}


@pytest.mark.parametrize(("wrong", "words"), [
    (template({"requests": {"CPU": 400, "gpu": 8}}), "must be a standard resource"),
    (template({"requests": {"nvidia.com/gpu": 1}}), "Limit must be set for non overcommitable resources"),
    (template({"requests": {"cpu": 2}, "limits": {"cpu": 1}}), "must be less than or equal to cpu limit of 1"),
    (template({}, image=""), "spec.containers[0].image: Required value"),
])  # fmt: skip
def test_a_template_that_is_no_pod_is_invalid_in_the_api_servers_words(world, wrong, words):
    end_as_invalid(world, wrong, words)


@pytest.mark.parametrize(
    "cluster", [pytest.param("real_api", marks=pytest.mark.realcluster)], indirect=True, scope="module"
)
@pytest.mark.parametrize(("wrong", "words"), [
    (template({"request": {"cpu": 400}}), 'unknown field "spec.containers[0].resources.request"'),
    ({**template({"requests": {"cpu": 2}}), "resources": {"requests": {"cpu": 1}}}, "must be greater than or equal to aggregate container requests of 2"),
])  # fmt: skip
def test_what_only_a_real_server_checks(world, wrong, words):
    end_as_invalid(world, wrong, words)


def end_as_invalid(world, wrong, words):
    reserve(world, "room", of_web(world), template=wrong).expect()
    ready = condition({"status": phase(world, "room", "Failed", 120)}, "Ready")
    assert ready["reason"] == "Invalid"
    assert ready["message"].startswith("spec.template: the API server takes no such pod: ")
    assert words in ready["message"]
    assert placeholders(world, "room") == []


def test_what_only_the_owners_namespace_can_judge_is_no_reason(world):
    strange = {
        **template({"requests": {"cpu": "1"}}, securityContext={"privileged": True}),
        "serviceAccountName": "of-the-owners",
        "priorityClassName": "of-the-owners",
        "hostNetwork": True,
    }
    reserve(world, "room", of_web(world), template=strange).expect()
    phase(world, "room", "Available", 120)


@pytest.mark.parametrize(("error", "words"), [
    (RejectedError(422, "Invalid", 'Pod "t-1" is invalid: spec.x: Required value'), "spec.x: Required value"),
    (RejectedError(400, "BadRequest", 'Pod in version "v1" cannot be handled as a Pod: odd'), "odd"),
    (RejectedError(400, "BadRequest", 'admission webhook "w" does not support dry run'), ""),
    (RejectedError(422, "Invalid", "pods \"t\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no"), ""),
    (RejectedError(400, "BadRequest", 'admission webhook "w" denied the request: no'), ""),
    (ForbiddenError(403, "Forbidden", 'pods "t" is forbidden: violates PodSecurity "restricted:latest"'), ""),
])  # fmt: skip
def test_only_the_words_of_validation_count(error, words):
    assert invalid_words(error) == words
