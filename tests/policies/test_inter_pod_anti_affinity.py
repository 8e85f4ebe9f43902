"""InterPodAntiAffinity: conflicts in both directions, over zones, repaired with the fewest moves."""

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE

NAME = "InterPodAntiAffinity"


def test_all_but_one_leave_while_there_are_nodes(decide, app):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"),
        app("db", ["n1"] * 4, lambda s: s.apart(HOSTNAME, app="db")),
    )  # fmt: skip
    plan = decide(cluster, NAME)
    assert sorted(m.target for m in plan.moves) == ["n2", "n3"]
    (skipped,) = plan.skipped
    assert skipped.reason in ("NoTarget", "NoBetterTarget")


def test_zone_wide_terms(decide, app, landings):
    cluster = b.snapshot(
        b.node("a1").zone("a"), b.node("a2").zone("a"), b.node("b1").zone("b"),
        app("db", ["a1", "a2"], lambda s: s.apart(ZONE, app="db")),
    )  # fmt: skip
    assert list(landings(decide(cluster, NAME)).values()) == ["b1"]


def test_other_namespaces_by_selector(decide, app, landings):
    term = {
        "topologyKey": HOSTNAME,
        "labelSelector": {"matchLabels": {"app": "noisy"}},
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    }
    path = "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), b.namespace("default"), b.namespace("other").label(team="x"),
        app("noisy", ["n1"], namespace="other"), app("quiet", ["n1"] * 2, lambda s: s.append(path, term)),
    )  # fmt: skip
    assert landings(decide(cluster, NAME)) == {"noisy-0": "n2"}


def test_kept_apart_pods_are_left_alone(decide, app):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), app("db", ["n1", "n2"], lambda s: s.apart(HOSTNAME, app="db"))
    )
    plan = decide(cluster, NAME)
    assert (plan.moves, plan.skipped) == ((), ())


def test_a_target_where_the_term_of_a_resident_matches_is_refused(decide, app, landings):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"), app("noisy", ["n1"]),
        app("quiet", ["n1"] * 2 + ["n2"], lambda s: s.apart(HOSTNAME, app="noisy")),
    )  # fmt: skip
    assert landings(decide(cluster, NAME)) == {"noisy-0": "n3"}
