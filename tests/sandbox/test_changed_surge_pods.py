"""Replacements that start first and that others change, with the whole program on the sandbox in virtual time."""

import pytest

from harness.histories.admission import HARMLESS, SPOILED_SURGE_PODS, surge_pod_policy
from kube_sandbox.controllers.unstructured import uid


def admitted(scene, expression):
    world = scene(3, replicas=2)
    for obj in surge_pod_policy(expression):
        world.api.create(obj)
    return world


@pytest.mark.parametrize("what", SPOILED_SURGE_PODS)
def test_nobody_is_evicted_for_a_replacement_that_is_not_as_asked(scene, what):
    s = admitted(scene, SPOILED_SURGE_PODS[what])
    name, _, old = s.move()
    s.finish(name)
    found = s.state(name)
    assert (found["phase"], found["reason"]) == ("Failed", "ReplacementChanged"), found
    assert "is not as asked" in found["message"]
    assert uid(old) not in s.witness.evicted
    s.settled(2)


@pytest.mark.parametrize("what", ["label", "annotation", "limits"])
def test_what_changes_no_promise_changes_no_move(scene, what):
    s = admitted(scene, HARMLESS[what])
    name, *_ = s.move()
    s.finish(name)
    assert s.state(name)["phase"] == "Succeeded", s.state(name)
    s.settled(2)
