"""The audit of rooms that others make for pending pods sees each way in which a promise is broken."""

import pytest
from click.testing import CliRunner

from bench.evictions import Watched
from bench.stepping_aside import main
from bench.stepping_aside_audit import bound_ever, early, landings, least_ready

ROOM = {
    "kind": "Reservation",
    "metadata": {
        "uid": "room",
        "name": "big.pending",
        "annotations": {"rescheduler.dev/pending-pod": "shop/big"},
    },
    "status": {"phase": "Waiting", "nodeName": "n1"},
}
HOLDER = {
    "kind": "Pod",
    "metadata": {
        "uid": "holder",
        "name": "holder",
        "namespace": "rescheduler",
        "ownerReferences": [{"uid": "room"}],
    },
    "spec": {},
    "status": {"nominatedNodeName": "n1"},
}
MOVE = {
    "kind": "PodMigration",
    "metadata": {
        "uid": "move",
        "name": "move",
        "namespace": "shop",
        "annotations": {"rescheduler.dev/makes-room": "big.pending"},
    },
    "spec": {"podRef": {"name": "web-0", "uid": "web-0"}},
}


def pod(name, *, ready=True, deleted=False, node=""):
    return {
        "kind": "Pod",
        "metadata": {
            "uid": name,
            "name": name,
            "namespace": "shop",
            "labels": {"app": "web"},
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}),
        },
        "spec": {"nodeName": node} if node else {},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def story(*events):
    """Each event: (type, object); versions count from 1."""
    watched = Watched()
    for version, (kind, found) in enumerate(events, 1):
        stamped = {**found, "metadata": {**found["metadata"], "resourceVersion": str(version)}}
        watched.take({"type": kind, "object": stamped})
    return watched


STANDS = [("ADDED", ROOM), ("ADDED", HOLDER), ("ADDED", MOVE), ("ADDED", pod("web-0"))]
ENDS = ("MODIFIED", pod("web-0", deleted=True))


def test_who_steps_aside_while_the_room_is_kept_does_so_rightly():
    used = {**ROOM, "status": {"phase": "Succeeded", "nodeName": "n1"}}
    assert list(early(story(*STANDS, ENDS, ("DELETED", HOLDER), ("MODIFIED", used)), "shop")) == []


@pytest.mark.parametrize(
    ("meanwhile", "words"),
    [
        (("MODIFIED", {**ROOM, "status": {"phase": "Failed"}}), "big.pending was Failed"),
        (("DELETED", ROOM), "big.pending was absent"),
        (("DELETED", HOLDER), "no placeholder"),
        (("MODIFIED", {**HOLDER, "status": {}}), "no placeholder"),
    ],
)
def test_what_was_missing_while_a_pod_stepped_aside_is_told(meanwhile, words):
    (told,) = early(story(*STANDS, meanwhile, ENDS), "shop")
    assert told.startswith("web-0: ")
    assert words in told


@pytest.mark.parametrize(
    ("phase", "node", "right"),
    [
        ("Succeeded", "n1", True),
        ("Succeeded", "n2", False),
        ("Failed", "n1", False),
        ("Succeeded", "", False),
    ],
)
def test_a_pod_landed_if_it_is_bound_where_its_last_room_was_used(phase, node, right):
    watched = story(("ADDED", {**ROOM, "status": {"phase": phase, "nodeName": "n1"}}))
    (found,) = landings(watched, [pod("big", node=node)])
    assert found.right is right


def test_the_fewest_ready_pods_are_counted_from_when_all_were_ready():
    begins = [("ADDED", pod("web-0", ready=False)), ("ADDED", pod("web-1")), ("MODIFIED", pod("web-0"))]
    assert least_ready(story(*begins), "shop", {"web": 2}) == {"web": 2}
    ended = [ENDS, ("DELETED", pod("web-0", deleted=True)), ("MODIFIED", pod("web-1", ready=False))]
    assert least_ready(story(*begins, *ended), "shop", {"web": 2}) == {"web": 0}


def test_a_stranger_that_had_a_node_is_told_though_it_is_gone():
    bound = pod("competitor1", node="n1")
    watched = story(("ADDED", pod("competitor1")), ("MODIFIED", bound), ("DELETED", bound))
    assert bound_ever(watched, "shop") == {"competitor1": "n1"}


def test_the_command_says_what_it_does():
    assert "step aside" in CliRunner().invoke(main, ["--help"]).output
