"""Mode StartFirst on the sandbox in virtual time: every interruption, crashes at any write, by seed.

A witness sees every write of the API server: Ready pods of the workload never fewer than before, pods never
more than replicas + 1, no eviction before the replacement is Ready. At the end the workload is as its owner
wants it and nothing of ours is left.
"""

import pytest

from harness import documents
from harness.histories.user_requests import MOVE
from kube_sandbox.controllers.unstructured import DEPLOYMENT, NODE, POD, ready, spec, uid
from tests.seeds import fresh


def test_two_moves_of_one_workload_take_turns(scene):
    s = scene(5, replicas=3)
    first, *_ = s.move()
    second = "m1"
    pods = sorted(s.pods(), key=lambda p: p["metadata"]["name"])
    other = pods[1]["metadata"]["name"]
    s.api.create(documents.migration(second, other, uid=uid(pods[1]), namespace="default", mode="StartFirst"))
    s.finish(first, second)
    assert [s.state(n)["phase"] for n in (first, second)] == ["Succeeded", "Succeeded"]
    s.settled(3)
    assert (s.witness.least, s.witness.most) == (3, 4)


@pytest.mark.parametrize("seed", fresh(1, 300))
def test_a_replacement_that_a_failed_move_left_goes_before_the_next_one_starts(scene, seed):
    """The first move is paused until its time is over; its Ready replacement must not stand beside that of the second."""
    s = scene(seed, replicas=2)
    first, *_ = s.move(ttl="20s", mode="StartFirst")
    s.cluster.run_until(lambda: any(ready(p) for p in s.unadopted()), 30)
    s.patch(MOVE, first, {"spec": {"paused": True}})
    other = max(s.pods(), key=lambda p: p["metadata"]["name"] if p not in s.unadopted() else "")
    wish = {"mode": "StartFirst", "ttl": "2m"}
    s.api.create(documents.migration("second", other["metadata"]["name"], namespace="default", **wish))
    s.finish(first, "second")
    assert (s.state(first)["phase"], s.state("second")["phase"]) == ("Failed", "Succeeded")
    s.settled(2)
    assert (s.witness.least, s.witness.most) == (2, 3)


@pytest.mark.crossed
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("seed", fresh(3, 100))
def test_a_process_that_dies_at_any_write(scene, replicas, seed):
    s = scene(seed, replicas=replicas, crashes=4)
    name, target, _ = s.move(ttl="3m")
    s.finish(name, limit_s=300)
    assert s.state(name)["phase"] == "Succeeded", s.state(name)
    s.settled(replicas)
    assert s.program.died >= 1
    assert (s.witness.least, s.witness.most) == (replicas, replicas + 1)
    assert target in {spec(p)["nodeName"] for p in s.pods()}


def forget(s, kind, name, namespace="default"):
    """Deletes an object that may be gone already."""
    found = s.api.get(kind, namespace, name)
    if found is not None:
        s.api.delete(found)


def change(s, **fields):
    s.patch(DEPLOYMENT, "web", {"spec": fields})


def interrupt(s, what, name, target, old):
    """One thing that the owner, a user or fate does; gives how many pods there must be in the end."""
    happens = {
        "rollout": lambda: change(s, template={"metadata": {"annotations": {"v": "2"}}}),
        "scale up": lambda: change(s, replicas=s.replicas + 1),
        "scale down": lambda: change(s, replicas=s.replicas - 1),
        "pause": lambda: change(s, paused=True),
        "old pod goes": lambda: forget(s, POD, old["metadata"]["name"]),
        "replacement goes": lambda: [s.api.delete(replacement) for replacement in s.unadopted()],
        "target dies": lambda: forget(s, NODE, target, ""),
        "move is deleted": lambda: forget(s, MOVE, name),
        "deployment is deleted": lambda: forget(s, DEPLOYMENT, "web"),
    }
    happens[what]()
    ends = {"scale up": s.replicas + 1, "scale down": s.replicas - 1, "deployment is deleted": 0}
    return ends.get(what, s.replicas)


HARMLESS = ("scale up", "pause")
EVENTS = (
    *HARMLESS, "rollout", "scale down", "old pod goes", "replacement goes", "target dies", "move is deleted",
    "deployment is deleted",
)  # fmt: skip


@pytest.mark.crossed
@pytest.mark.parametrize("what", EVENTS)
@pytest.mark.parametrize("seed", fresh(2, 200))
def test_interruptions_at_any_moment(scene, what, seed):
    s = scene(seed, replicas=3, crashes=seed % 2)
    name, target, old = s.move()
    phase = s.rng.choice(["Reserving", "Evicting", "HandingOver"])
    s.when(phase, name)
    s.cluster.advance(s.rng.choice([0.0, 0.05, 0.3, 0.8]))
    wanted = interrupt(s, what, name, target, old)
    s.finish(name)
    s.cluster.advance(30)
    s.settled(wanted)
    if what in HARMLESS:
        assert s.witness.least >= 3
    if what == "rollout":
        assert all(p["metadata"]["annotations"].get("v") == "2" for p in s.pods())
