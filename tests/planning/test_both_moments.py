"""Plans hold while old pods end, once they are gone, and whichever of the other moves of the plan have landed."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.replay import replay
from harness import builders as b
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import ANNOTATION_MODE, HOSTNAME, ZONE
from rescheduler.model.room_pod import pinned
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.plan import in_stages
from rescheduler.planning.planner import plan
from rescheduler.planning.single_pod import no_moves
from rescheduler.planning.start_first_mode import may_start_beside, unadopted_replacement
from rescheduler.policies.registry import REGISTRY
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import examples

QUICK = settings(max_examples=examples(10, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
MANY = Limits(
    moves_at_once=100,
    moves_per_hour=100,
    per_node=100,
    per_namespace=100,
    per_workload=100,
    minimum_gain=0.01,
)
POLICIES = ("NodeTaints", "InterPodAntiAffinity", "TopologySpread", "LowNodeUtilization")


def node(name, zone, *, old=False):
    built = b.node(name).zone(zone).label({HOSTNAME: name})
    return built.taint("old") if old else built


def moves(made):
    return [(m.pod.name, m.target) for m in made.moves]


# Cases -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "target"), [(b.replicaset, None), (b.statefulset, "n2")])
def test_affinity_to_oneself_keeps_the_replacement_in_the_zone_where_the_old_pod_ends(decide, kind, target):
    owner = kind("web").near(ZONE, app="web")
    nodes = (node("n1", "a", old=True), node("n2", "b"))
    cluster = b.snapshot(*nodes, owner, owner.pod("web-0").on("n1"))
    assert moves(decide(cluster, "NodeTaints")) == ([("web-0", target)] if target else [])
    wider = b.snapshot(*nodes, node("n3", "a"), owner, owner.pod("web-0").on("n1"))
    assert ("web-0", "n3") in moves(decide(wider, "NodeTaints")) or target


def near_db(on):
    db, api = b.replicaset("db").cpu("1"), b.replicaset("api").near(ZONE, app="db").cpu("1")
    pods = [db.pod(f"db-{i}").on(place) for i, place in enumerate(on)]
    return [db.replicas(len(on)), api, *pods]


def test_affinity_relies_on_no_replacement_that_may_not_have_landed(decide):
    """Both leave zone a for zone b. The one that wants to be near the other goes once that is there."""
    nodes = (node("n1", "a", old=True), node("n2", "b"))
    objects = near_db(["n1"])
    cluster = b.snapshot(*nodes, objects, objects[1].pod("api-0").on("n1"))
    assert moves(decide(cluster, "NodeTaints")) == [("db-0", "n2")]
    landed = near_db(["n2"])
    cluster = b.snapshot(*nodes, landed, landed[1].pod("api-0").on("n1"))
    assert moves(decide(cluster, "NodeTaints")) == [("api-0", "n2")]


def test_no_pod_leaves_on_which_an_earlier_move_of_the_plan_relies(decide):
    """api-0 goes to zone b because of db-0; so db-0 does not leave zone b in the same plan."""
    nodes = (node("n1", "a", old=True), node("n2", "b").cpu("1"), node("n3", "b", old=True), node("n4", "c"))
    objects = near_db(["n3"])
    cluster = b.snapshot(*nodes, objects, objects[1].pod("api-0").on("n1"))
    made = decide(cluster, "NodeTaints")
    assert moves(made) == [("api-0", "n2")]
    (stays,) = made.skipped
    assert (stays.pod.name, stays.blocked_by) == ("db-0", "default/api-0")
    assert "relies on it" in stays.message


def spread_over_zones(*places):
    owner = b.replicaset("web").spread(ZONE, app="web")
    return [owner.replicas(len(places)), *[owner.pod(f"web-{i}").on(at) for i, at in enumerate(places)]]


@pytest.mark.parametrize(("unlimited", "number"), [(True, 2), (False, 1)])
def test_at_once_no_move_relies_on_the_other_for_topology_spread(decide, unlimited, number):
    """4, 1 and 0 pods in three zones: a second one may land in zone b once the first one is in zone c."""
    nodes = (node("n1", "a"), node("n2", "b"), node("n3", "c").cpu("1"))
    objects = spread_over_zones("n1", "n1", "n1", "n1", "n2")
    objects[1:] = [pod.cpu("1") for pod in objects[1:]]
    objects[0] = objects[0].cpu("1")
    inputs = PlanningInputs(unlimited=unlimited, limits=MANY)
    made = decide(b.snapshot(*nodes, objects), "TopologySpread", inputs=inputs)
    assert [m.target for m in made.moves] == ["n3", "n2"][:number]


def test_a_disk_is_not_free_before_the_pod_that_leaves_has_ended(decide):
    disk = {"name": "disk", "gcePersistentDisk": {"pdName": "d"}}
    one = b.replicaset("one").volume(disk).requires_node("pool", "x")
    two = b.replicaset("two").volume(disk).requires_node("pool", "y")
    cluster = b.snapshot(
        node("n1", "a", old=True),
        node("n2", "a").label(pool="y"),
        node("n3", "a").label(pool="x"),
        one,
        two,
        one.pod("one-0").on("n2"),
        two.pod("two-0").on("n1"),
    )
    inputs = PlanningInputs(unlimited=True)
    made = decide(cluster, "NodeAffinity", "NodeTaints", inputs=inputs)
    assert moves(made) == [("one-0", "n3"), ("two-0", "n2")]
    assert [p.name for p in made.moves[1].after] == ["one-0"]


NO_POD_WITHOUT_REVISION = {
    "topologyKey": ZONE,
    "labelSelector": {"matchExpressions": [{"key": "pod-template-hash", "operator": "DoesNotExist"}, {"key": "quiet", "operator": "DoesNotExist"}]},
}  # fmt: skip


def db_started_first():
    """A ReplicaSet without Deployment: its replacement has no label of the template before it is adopted."""
    return b.replicaset("db").annotate({ANNOTATION_MODE: "StartFirst"})


def test_what_starts_first_keeps_rules_on_adoption_although_others_have_not_left(decide):
    """api-0 keeps db out of zone b until it has left. db-0 may start there, because it has no labels before its adoption."""
    db = db_started_first()
    api = b.replicaset("api").apart(ZONE, app="db").requires_node("pool", "y")
    nodes = (node("n1", "a", old=True), node("n2", "b"), node("n3", "c").label(pool="y"))
    made = decide(
        b.snapshot(*nodes, db, api, db.pod("db-0").on("n1"), api.pod("api-0").on("n2")),
        "NodeAffinity",
        "NodeTaints",
    )
    assert [[(m.pod.name, m.target) for m in stage] for stage in in_stages(made.moves)] == [
        [("api-0", "n3")],
        [("db-0", "n2")],
    ]


def test_no_move_goes_beside_what_has_started_first_and_is_not_adopted(decide):
    """Beside the pod of db that stays, the other one fits in zone b; beside the one that starts first, without its revision, it does not."""
    above = b.deployment("db").annotate({ANNOTATION_MODE: "StartFirst"})
    db = b.replicaset("db").template_label({"app": "db", "pod-template-hash": "1"}).owned_by(above)
    db, budget = db.requires_node("pool", "y"), b.pdb("db").selects(app="db").allows(0, healthy=1)
    other = b.replicaset("other").label(quiet="yes").requires_node("pool", "x")
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [NO_POD_WITHOUT_REVISION]}
    other = other.set(f"{other.spec_path}.affinity.podAntiAffinity", rules)
    nodes = (node("n1", "a"), node("n2", "b").label(pool="y"), node("n3", "b").label(pool="x"))
    pods = (db.pod("db-0").on("n1"), other.pod("other-0").on("n1"))
    made = decide(b.snapshot(*nodes, above, db, budget, other, *pods), "NodeAffinity")
    assert [len(stage) for stage in in_stages(made.moves)] == [1] * len(made.moves)
    assert ("db-0", "n2", MoveMode.START_FIRST) in [(m.pod.name, m.target, m.mode) for m in made.moves]


# Properties --------------------------------------------------------------------------------------


@st.composite
def clusters(draw):
    """Nodes in zones, many of them tainted, and workloads with rules about other pods; some declare mode StartFirst."""
    nodes = []
    for i in range(draw(st.integers(4, 7))):
        built = b.node(f"n{i}").zone("abc"[i % 3]).cpu(draw(st.sampled_from(["2", "4"])))
        nodes.append(built.taint("old") if draw(st.integers(0, 2)) == 0 else built)
    objects = list(nodes)
    for number in range(draw(st.integers(2, 4))):
        name = f"app{number}"
        kind = draw(st.sampled_from(["Deployment", "Deployment", "ReplicaSet", "StatefulSet"]))
        owner = (b.statefulset if kind == "StatefulSet" else b.replicaset)(name).cpu("200m")
        owner = RULES[draw(st.sampled_from(sorted(RULES)))](owner, name)
        if draw(st.integers(0, 2)) == 0:
            owner = RULES[draw(st.sampled_from(sorted(RULES)))](owner, name)
        places = draw(st.lists(st.integers(0, len(nodes) - 1), min_size=1, max_size=5))
        owner = owner.replicas(len(places))
        starts_first = {ANNOTATION_MODE: "StartFirst"} if draw(st.booleans()) else {}
        if kind == "Deployment":
            above = b.deployment(name).replicas(len(places)).annotate(starts_first)
            owner = owner.template_label({"app": name, "pod-template-hash": "1"}).owned_by(above)
            objects.append(above)
        owner = owner.annotate(starts_first)
        objects.append(owner)
        for i, place in enumerate(places):
            pod = owner.pod(f"{name}-{i}").on(f"n{place}")
            objects.append(pod.deleting() if draw(st.integers(0, 9)) == 0 else pod)
    return b.snapshot(*objects)


def alone_but_own(owner, name):
    """No pod of others in its zone: a rule that refuses pods without labels."""
    apps = {"key": "app", "operator": "NotIn", "values": [name]}
    term = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [apps]}}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return owner.set(f"{owner.spec_path}.affinity.podAntiAffinity", rules)


RULES = {
    "apart-host": lambda owner, name: owner.apart(HOSTNAME, app=name),
    "apart-zone": lambda owner, name: owner.apart(ZONE, app=name),
    "apart-other": lambda owner, _: owner.apart(ZONE, app="app0"),
    "near-zone": lambda owner, name: owner.near(ZONE, app=name),
    "near-other": lambda owner, _: owner.near(ZONE, app="app0"),
    "near-third": lambda owner, _: owner.near(ZONE, app="app1"),
    "spread-zone": lambda owner, name: owner.spread(ZONE, app=name),
    "spread-host": lambda owner, name: owner.spread(HOSTNAME, app=name, min_domains=2),
    "port": lambda owner, _: owner.host_port(8080),
    "alone-but-own": alone_but_own,
}


def decided(cluster, *, unlimited=True):
    policies = [REGISTRY[name].build(REGISTRY[name].args()) for name in POLICIES]
    inputs = PlanningInputs(unlimited=unlimited, limits=MANY)
    return plan(cluster, policies, inputs, SchedulingState(cluster))


class World:
    """A cluster in which some moves of a plan have begun."""

    def __init__(self, cluster, made):
        self.state = SchedulingState(cluster)
        self.moves = made.moves
        self._cluster = cluster
        self._replacements = Replacements(cluster)
        self._pods = {pod.uid: pod for pod in cluster.pods.values()}

    def old(self, move):
        return self._pods[move.pod.uid]

    def replacement(self, move):
        return self._replacements.of(self.old(move)).pod

    def before(self, move):
        """Uids of the pods whose moves have landed, and whose old pods are gone, before this move begins."""
        earlier = {m.pod.uid: m for m in self.moves}
        found, todo = set(), [ref.uid for ref in move.after]
        while todo:
            uid = todo.pop()
            if uid not in found:
                found.add(uid)
                todo += [ref.uid for ref in earlier[uid].after]
        return found

    def begin_before(self, move):
        """What this move begins after is done."""
        before = self.before(move)
        for other in self.moves:
            if other.pod.uid in before:
                self.begin(other, ends=False, landed=True)

    def begin(self, move, *, ends, landed):
        """The old pod ends or is gone. That of a StatefulSet is gone once its replacement has landed."""
        old = self.old(move)
        self.state.remove(old)
        if ends and not (landed and old.controller.kind == "StatefulSet"):
            self.state.place_terminating(old)
        if landed:
            self.state.place(self.replacement(move), move.target)

    def unadopted(self, move):
        """What mode StartFirst creates."""
        owner = self._cluster.workloads[self.old(move).controller.uid]
        return pinned(unadopted_replacement(self.replacement(move), owner), move.target)

    def start(self, move):
        """Mode StartFirst: the replacement runs beside the old pod."""
        self.state.place(self.unadopted(move), move.target)

    def refusal(self, move, *, ends):
        """The plugin that refuses the replacement now, in the mode of the move; "" if none.

        In mode StartFirst it is asked about the pod that is created, and about the one that stays.
        """
        old, mark, why = self.old(move), self.state.checkpoint(), ""
        if move.mode is MoveMode.START_FIRST:
            why = self._refused(self.unadopted(move), move.target)
            self.begin(move, ends=False, landed=False)
        else:
            self.begin(move, ends=ends and old.controller.kind != "StatefulSet", landed=False)
        why = why or self._refused(self.replacement(move), move.target)
        self.state.rollback(mark)
        return why

    def _refused(self, asked, target):
        result, at = self.state.filter(asked), self.state.node_index[target]
        return "" if result.feasible[at] else result.plugins[int(result.refused_by[at])]


@pytest.mark.parametrize("ends", [True, False])
@QUICK
@given(cluster=clusters())
def test_each_move_holds_in_its_turn_whether_old_pods_end_or_are_gone(ends, cluster):
    made = decided(cluster)
    for number, move in enumerate(made.moves):
        world = World(cluster, made)
        before = world.before(move)
        for earlier in made.moves[:number]:
            world.begin(earlier, ends=ends and earlier.pod.uid not in before, landed=True)
        assert world.refusal(move, ends=ends) == "", move


@pytest.mark.parametrize("ends", [True, False])
@QUICK
@given(cluster=clusters())
def test_each_move_that_runs_at_once_with_others_holds_alone(ends, cluster):
    made = decided(cluster, unlimited=False)
    for move in made.moves:
        world = World(cluster, made)
        world.begin_before(move)
        assert world.refusal(move, ends=ends) == "", move


@QUICK
@given(cluster=clusters(), seed=st.integers(0, 2**32))
def test_each_move_holds_whichever_others_have_begun_but_for_the_order_of_spread(cluster, seed):
    """``coordination.landing_order`` keeps the order in which spread allows the replacements to land."""
    made = decided(cluster)
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    for move in made.moves:
        world = World(cluster, made)
        before, done = world.before(move), set()
        for other in made.moves:
            needed = other.pod.uid in before
            ready = other is not move and done.issuperset(ref.uid for ref in other.after)
            if not needed and ready and other.mode is MoveMode.START_FIRST and rng.random() < 0.4:
                world.start(other)
            elif needed or (ready and rng.random() < 0.7):
                ends, landed = not needed and rng.random() < 0.5, needed or rng.random() < 0.5
                world.begin(other, ends=ends, landed=landed)
                if landed and not ends:
                    done.add(other.pod.uid)
        refused = world.refusal(move, ends=rng.random() < 0.5)
        assert refused in ("", PodTopologySpread.name), (move, refused)


@pytest.mark.parametrize("unlimited", [True, False])
@QUICK
@given(cluster=clusters(), seed=st.integers(0, 2**32))
def test_the_moves_of_each_stage_land_in_any_order_in_which_spread_lets_them_wait(unlimited, cluster, seed):
    """None relies on a move of a later stage, and none is spoilt by one of its own or an earlier one."""
    made = decided(cluster, unlimited=unlimited)
    assert replay(cluster, in_stages(made.moves), random.Random(seed)).refused == ()  # noqa: S311


@QUICK
@given(cluster=clusters())
def test_what_is_left_after_a_move_of_mode_start_first_breaks_no_rule(cluster):
    made = decided(cluster)
    world = World(cluster, made)
    for move in made.moves:
        old, at = world.old(move), world.state.node_index[move.target]
        if move.mode is MoveMode.START_FIRST:
            mark = world.state.checkpoint()
            world.state.remove(old)
            assert world.state.filter(world.replacement(move)).feasible[at], move
            world.state.rollback(mark)
        world.begin(move, ends=False, landed=True)


@QUICK
@given(cluster=clusters())
def test_an_old_pod_that_ends_is_judged_as_kube_scheduler_counts_it(cluster):
    """Asked of the rules between pods only, and of the scheduler with the terminating pod in place."""
    replacements, state = Replacements(cluster), SchedulingState(cluster)
    for pod in [p for p in cluster.pods.values() if not p.deleting]:
        replacement = replacements.of(pod).pod
        mark, elsewhere = state.checkpoint(), np.ones(len(state.node_names), dtype=bool)
        elsewhere[state.node_index[pod.node]] = False
        state.remove(pod)
        gone = state.feasible(replacement) & elsewhere
        asked = gone.copy()
        no_moves(cluster, state).restrict_affinity(replacement, asked, pod)
        state.place_terminating(pod)
        both = gone & state.feasible(replacement)
        state.rollback(mark)
        assert not (asked & ~both).any()
        # Required affinity relies on no other terminating pod either.
        assert replacement.spec.pod_affinity or asked.tolist() == both.tolist()


@QUICK
@given(cluster=clusters())
def test_no_node_that_accepts_the_pinned_replacement_is_left_out_before(cluster):
    replacements, state = Replacements(cluster), SchedulingState(cluster)
    for pod in cluster.pods.values():
        owner = cluster.workloads[pod.controller.uid]
        unadopted = unadopted_replacement(replacements.of(pod).pod, owner)
        may = may_start_beside(state, unadopted)
        for name, at in state.node_index.items():
            assert may[at] or not state.feasible(pinned(unadopted, name))[at]


def test_the_generated_clusters_have_moves_of_both_modes_and_rules_that_matter():
    """Otherwise the properties would say nothing."""
    seen = set()

    @settings(
        max_examples=examples(30, 60),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(cluster=clusters())
    def look(cluster):
        for move in decided(cluster).moves:
            pod = next(p for p in cluster.pods.values() if p.uid == move.pod.uid)
            seen.add(move.mode)
            seen.update(
                name for name in ("spread", "pod_affinity", "pod_anti_affinity") if getattr(pod.spec, name)
            )

    look()
    assert seen == {
        MoveMode.START_FIRST,
        MoveMode.RESERVE_FIRST,
        "spread",
        "pod_affinity",
        "pod_anti_affinity",
    }


def test_a_terminating_replacement_counts_as_terminating():
    """The worlds of these tests rest on it."""
    cluster = b.snapshot(node("n1", "a"), b.pod("p").on("n1"))
    state, (pod,) = SchedulingState(cluster), cluster.pods.values()
    state.remove(pod)
    state.place_terminating(pod)
    assert [p.deleting for p in state.pods_on("n1")] == [True]
    assert pod.with_state(deleting=True) == state.pods_on("n1")[0]
