"""NodeAffinity: required no longer met, preferred met clearly better elsewhere."""

import pytest

from harness import builders as b
from rescheduler.model.names import HOSTNAME
from rescheduler.policies.wire import LabelSelectorArgs, NamespaceFilter

BOTH = ("NodeAffinity", {"types": ("required", "preferred")})


def test_required_affinity_no_longer_met(decide, app, landings):
    cluster = b.snapshot(
        b.node("n1").label(disk="hdd"), b.node("n2").label(disk="ssd"), b.node("n3"),
        app("db", ["n1"], lambda spec: spec.requires_node("disk", "ssd")),
        app("web", ["n3"], lambda spec: spec.node_selector({"disk": "ssd"})),
    )  # fmt: skip
    plan = decide(cluster, "NodeAffinity")
    assert landings(plan) == {"db-0": "n2", "web-0": "n2"}
    assert {m.reason for m in plan.moves} == {"RequiredNotMet"}


def test_no_node_meets_it(decide, app):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), app("db", ["n1"], lambda s: s.requires_node("disk", "ssd"))
    )
    (skipped,) = decide(cluster, "NodeAffinity").skipped
    assert skipped.reason == "NoBetterTarget"


def test_full_node_that_would_meet_it_is_named_with_its_plugin(decide, app):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2").label(disk="ssd").cpu("1"),
        b.pod("bare").on("n2").cpu("1"),  # nothing would bring it back, so it makes no room
        app("db", ["n1"], lambda s: s.cpu("500m").requires_node("disk", "ssd")),
    )  # fmt: skip
    (skipped,) = decide(cluster, "NodeAffinity").skipped
    assert skipped.reason == "NoTarget"
    assert "NodeResourcesFit" in skipped.message


def test_preferred_only_by_choice_and_only_if_clearly_better(decide, app, landings):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2").label(disk="ssd"), b.node("n3").label(disk="ssd", rack="r1"),
        app("db", ["n1", "n2", "n2"], lambda s: s.prefers_node("disk", "ssd", weight=80).prefers_node("rack", "r1", weight=20)),
    )  # fmt: skip
    assert decide(cluster, "NodeAffinity").moves == ()
    plan = decide(cluster, BOTH)
    # db-1 and db-2 would gain only a fifth of their wishes: left alone.
    assert landings(plan) == {"db-0": "n3"}
    assert plan.moves[0].gain == 0.5


def test_node_names_by_field(decide, app, landings):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    path = "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"),
        app("db", ["n1"], lambda s: s.set(path, {"nodeSelectorTerms": [term]})),
    )  # fmt: skip
    assert landings(decide(cluster, "NodeAffinity")) == {"db-0": "n2"}


def test_scope_by_label_and_namespace(decide, app, landings):
    pick = lambda s: s.node_selector({"disk": "ssd"})  # noqa: E731
    cluster = b.snapshot(
        b.node("n1"), b.node("n2").label(disk="ssd"), app("a", ["n1"], pick), app("b", ["n1"], pick, "other")
    )
    one = ("NodeAffinity", {"label_selector": LabelSelectorArgs(match_labels={"app": "a"})})
    two = ("NodeAffinity", {"namespaces": NamespaceFilter(exclude=("default",))})
    assert landings(decide(cluster, one)) == {"a-0": "n2"}
    assert landings(decide(cluster, two)) == {"b-0": "n2"}


SCORE = ("NodeAffinity", {"types": ("score",)})


def test_scheduler_preferences_only_by_choice_and_only_if_clearly_better(decide, app, landings):
    """A PreferNoSchedule taint costs n1 three sevenths of all that kube-scheduler scores here."""
    cluster = b.snapshot(
        b.node("n1").taint("old", effect="PreferNoSchedule"), b.node("n2"), b.node("n3"),
        app("web", ["n1"], lambda s: s.cpu("100m")),
        app("api", ["n2"], lambda s: s.cpu("100m")),
    )  # fmt: skip
    assert decide(cluster, "NodeAffinity").moves == ()
    plan = decide(cluster, SCORE)
    assert landings(plan) == {"web-0": "n3"}
    assert plan.moves[0].reason == "ScoredElsewhere"
    assert plan.moves[0].gain > 0.125


def test_a_moved_pod_is_not_wanted_back_by_the_scores(decide, app, landings):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"),
        app("web", ["n1", "n1", "n2"], lambda s: s.cpu("200m")),
    )  # fmt: skip
    assert decide(cluster, SCORE).moves == ()


def test_a_pod_that_its_own_node_would_refuse_is_left_to_other_policies(decide, app):
    cluster = b.snapshot(
        b.node("n1").taint("gone"), b.node("n2"), app("web", ["n1"], lambda s: s.cpu("100m"))
    )
    plan = decide(cluster, SCORE)
    assert plan.moves == ()
    assert plan.skipped == ()


def hinted(spec):
    """As admission leaves a pod whose controller's pods were moved away from n1 and n3."""
    return spec.prefers_node(HOSTNAME, "n1", "n3", operator="NotIn", weight=100)


HOSTS = [b.node(f"n{i}").label({HOSTNAME: f"n{i}"}) for i in (1, 2, 3)]


@pytest.mark.parametrize("types", [("preferred",), ("score",)])
def test_the_hint_of_admission_is_no_wish_of_the_owner(decide, types):
    owner = b.replicaset("web").replicas(1).cpu("100m")
    cluster = b.snapshot(*HOSTS, owner, hinted(owner.pod("web-0").on("n1")))
    plan = decide(cluster, ("NodeAffinity", {"types": types}))
    assert plan.moves == plan.skipped == ()


def test_small_wishes_are_not_drowned_by_the_hint(decide, landings):
    nodes = [HOSTS[0].label(disk="hdd"), HOSTS[1].label(disk="hdd"), HOSTS[2].label(disk="ssd")]
    owner = b.replicaset("web").replicas(1).cpu("100m").prefers_node("disk", "ssd", weight=1)
    cluster = b.snapshot(*nodes, owner, hinted(owner.pod("web-0").on("n1")))
    assert landings(decide(cluster, BOTH)) == {"web-0": "n3"}


def test_a_wish_of_the_owner_may_look_like_a_hint(decide, landings):
    owner = hinted(b.replicaset("web").replicas(1).cpu("100m"))
    cluster = b.snapshot(*HOSTS, owner, owner.pod("web-0").on("n1"))
    assert landings(decide(cluster, BOTH)) == {"web-0": "n2"}
