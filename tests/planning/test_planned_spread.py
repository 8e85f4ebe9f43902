"""Hard topology spread between the stages of a plan: no move counts on a later stage, none spoils what lands in its own or later."""

import pytest

from harness import builders as b
from rescheduler.model.names import ZONE
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import PolicyView
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState


class World:
    """Zones a, b and c with one node each, and a second one in c; ``web`` is spread over the zones, ``other`` stands in c."""

    def __init__(self, *places, at_once=False):
        web, other = b.replicaset("web").spread(ZONE, app="web"), b.replicaset("other")
        nodes = [b.node(f"n-{zone}").zone(zone) for zone in "abc"] + [b.node("n-c2").zone("c")]
        pods = [web.pod(f"web-{i}").on(f"n-{zone}") for i, zone in enumerate(places)]
        self.snapshot = b.snapshot(
            *nodes, web.replicas(len(places)), other, pods, other.pod("other-0").on("n-c")
        )
        self.pods = {pod.name: pod for pod in self.snapshot.pods.values()}
        self.replacements = Replacements(self.snapshot)
        state = SchedulingState(self.snapshot)
        self.trial = Trial(self.snapshot, PolicyView.of(self.snapshot, state), set(), at_once=at_once)

    def move(self, name, target, *after):
        pod = self.pods[name]
        new = self.replacements.of(pod).pod
        self.trial.move(pod, new, target, [self.pods[one] for one in after])

    def zones(self, name, *after):
        """Zones that would take the pod if it moved after these."""
        pod = self.pods[name]
        new = self.replacements.of(pod).pod
        with self.trial.landed({self.pods[one].uid for one in after}), self.trial.without(pod):
            found = self.trial.feasible_targets(pod, new)
        return {node[2] for node, at in self.trial.state.node_index.items() if found[at]}

    def relying(self, name, target):
        pod = self.pods[name]
        with self.trial.without(pod):
            found = self.trial.leaning_on(pod, self.replacements.of(pod).pod, target)
        return (found.move.pod.name, found.rule) if found is not None else None


@pytest.mark.parametrize("at_once", [False, True])
def test_a_move_of_the_first_stage_does_not_count_on_one_of_the_second(at_once):
    """3, 1 and 0 pods: zone b takes another one only once one has landed in zone c, which begins later."""
    world = World("a", "a", "a", "b", at_once=at_once)
    world.move("other-0", "n-c2")
    world.move("web-0", "n-c", "other-0")
    assert world.zones("web-1") == {"c"}
    assert world.zones("web-1", "web-0") == {"b", "c"}


def test_within_a_stage_the_order_of_the_plan_counts_where_it_is_kept():
    world = World("a", "a", "a", "b")
    world.move("web-0", "n-c")
    assert world.zones("web-1") == {"b", "c"}


@pytest.mark.parametrize("after", [(), ("other-0",)])
def test_a_move_does_not_spoil_one_that_lands_in_its_stage_or_later(after):
    """3, 1 and 1 pods: one goes from a to c. If the one in b left as well, zone c would be two ahead of it."""
    world = World("a", "a", "a", "b", "c")
    world.move("other-0", "n-c2")
    world.move("web-0", "n-c", *after)
    assert world.relying("web-3", "n-a") == ("web-0", "topology spread")
    assert world.relying("web-1", "n-b") is None


def test_a_later_stage_may_undo_what_an_earlier_one_needed():
    """By then the earlier one has landed."""
    world = World("a", "a", "b", "c")
    world.move("web-0", "n-c")
    pod = world.pods["web-2"]
    with world.trial.landed({world.pods["web-0"].uid}), world.trial.without(pod):
        assert world.trial.leaning_on(pod, world.replacements.of(pod).pod, "n-a") is None


def test_what_is_taken_back_holds_nobody_up():
    world = World("a", "a", "b", "c")
    mark = world.trial.mark()
    world.move("other-0", "n-c2")
    world.move("web-0", "n-c", "other-0")
    world.trial.rollback(mark)
    assert world.relying("web-2", "n-a") is None
