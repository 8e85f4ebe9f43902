"""No pod is sent to an architecture or operating system that nothing shows its images to be built for."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.planner import plan
from rescheduler.planning.single_pod import choose_target, move_refusal
from rescheduler.policies.registry import REGISTRY
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState

ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
AMD, ARM = "amd64", "arm64"


def node(name, arch=AMD, **more):
    return b.node(name).label({ARCH: arch, OS: "linux"} | more)


OLD = node("n1").taint("old")


def record(cluster, name):
    return next(p for p in cluster.pods.values() if p.name == name)


def test_pods_stay_on_their_architecture_although_the_other_one_is_emptier(decide, app, landings):
    cluster = b.snapshot(
        OLD, node("arm", ARM).cpu("64"), node("z").cpu("4"), app("web", ["n1"] * 3, lambda s: s.cpu("500m"))
    )
    assert set(landings(decide(cluster, "NodeTaints")).values()) == {"z"}


def test_a_pod_that_only_the_other_architecture_would_take_stays_and_the_reason_says_so(decide, app):
    made = decide(b.snapshot(OLD, node("arm", ARM), app("web", ["n1"])), "NodeTaints")
    (skipped,) = made.skipped
    assert not made.moves
    assert skipped.reason is SkipReason.NO_TARGET
    assert "1 node that would take its replacement" in skipped.message
    assert "another platform (arm64) than node/n1" in skipped.message


EVIDENCE = {
    "the same workload": lambda app: app("web", ["n1", "arm"]),
    "another workload with the image": lambda app: [*app("web", ["n1"]), *app("api", ["arm"])],
    "a selector of its owner": lambda app: app("web", ["n1"], lambda s: s.node_selector({ARCH: ARM})),
}
NO_EVIDENCE = {
    "another image": lambda app: [
        *app("web", ["n1"]), *app("api", ["arm"], lambda s: s.image("registry.example/other:1"))
    ],
    "a pod that is not ready": lambda app: [
        *app("web", ["n1"]), b.pod("crashing").on("arm").not_ready()
    ],
}  # fmt: skip


@pytest.mark.parametrize(("pods", "moves"), [
    *((p, True) for p in EVIDENCE.values()),
    *((p, False) for p in NO_EVIDENCE.values()),
], ids=[*EVIDENCE, *NO_EVIDENCE])  # fmt: skip
def test_what_shows_that_a_pod_runs_there(decide, app, landings, pods, moves):
    cluster = b.snapshot(OLD, node("arm", ARM), pods(app))
    assert landings(decide(cluster, "NodeTaints")) == ({"web-0": "arm"} if moves else {})
    choice = choose_target(Replacements(cluster), SchedulingState(cluster), record(cluster, "web-0"))
    assert choice.node == ("arm" if moves else "")
    assert moves or "another platform (arm64)" in choice.message


def test_operating_systems_count_as_well_and_a_node_without_labels_is_not_judged(decide, app, landings):
    windows = b.snapshot(OLD, node("win", **{OS: "windows"}), app("web", ["n1"]))
    assert not decide(windows, "NodeTaints").moves
    unlabelled = b.snapshot(OLD, b.node("plain"), node("arm", ARM), app("web", ["n1"]))
    assert landings(decide(unlabelled, "NodeTaints")) == {"web-0": "plain"}


def test_a_node_that_a_person_names_is_taken(app):
    cluster = b.snapshot(OLD, node("arm", ARM), app("web", ["n1"]))
    asked = Replacements(cluster), SchedulingState(cluster), record(cluster, "web-0"), "arm"
    assert move_refusal(*asked) is None


def test_room_is_not_made_on_another_architecture(decide, app):
    cluster = b.snapshot(
        OLD, node("arm", ARM).cpu("2"), node("arm2", ARM).cpu("4"),
        app("web", ["n1"], lambda s: s.cpu("2")), app("o", ["arm"], lambda s: s.cpu("1").image("other")),
    )  # fmt: skip
    assert not decide(cluster, "NodeTaints").moves


@st.composite
def clusters(draw):
    nodes = [
        node(f"n{i}", draw(st.sampled_from([AMD, ARM]))).cpu("4").label(disk=draw(st.sampled_from("ab")))
        for i in range(draw(st.integers(2, 6)))
    ]
    nodes = [one.taint("old") if draw(st.integers(0, 3)) == 0 else one for one in nodes]
    objects = list(nodes)
    for number in range(draw(st.integers(1, 4))):
        owner = b.replicaset(f"app{number}").cpu(draw(st.sampled_from(["300m", "900m"])))
        owner = owner.image(f"image{draw(st.integers(0, 5))}")
        if draw(st.booleans()):
            owner = owner.node_selector({"disk": draw(st.sampled_from("ab"))})
        places = draw(st.lists(st.integers(0, len(nodes) - 1), min_size=1, max_size=4))
        objects.append(owner.replicas(len(places)))
        objects += [owner.pod(f"app{number}-{i}").on(f"n{place}") for i, place in enumerate(places)]
    return b.snapshot(*objects)


@given(clusters(), st.sampled_from(["LowNodeUtilization", "HighNodeUtilization"]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_plan_sends_an_image_to_an_architecture_where_it_does_not_run(cluster, third):
    policies = [REGISTRY[n].build(REGISTRY[n].args()) for n in ("NodeTaints", "NodeAffinity", third)]
    made = plan(
        cluster, policies, PlanningInputs(aggressiveness=1.0, unlimited=True), SchedulingState(cluster)
    )
    assume(made.moves)
    arch = {name: one.labels.get(ARCH) for name, one in cluster.nodes.items()}
    runs = {(image, arch[pod.node]) for pod in cluster.pods.values() for image in pod.spec.images}
    for move in made.moves:
        images = record(cluster, move.pod.name).spec.images
        assert all((image, arch[move.target]) in runs for image in images)
