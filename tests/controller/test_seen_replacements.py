"""A custom controller is believed to replace its pods once it was seen to, in the namespace where it was."""

import pytest

from harness import builders as b
from rescheduler.controller.seen_replacements import WITHIN_S, SeenReplacements
from rescheduler.model.replacement_rules import KindThere, ReplacementRules
from rescheduler.replacements.controllers import BUILT_IN

WIDGET = KindThere("default", "example.com", "Widget")


def pod(name, uid="", owner="w", kind="Widget", api_version="example.com/v1"):
    return b.pod(name).on("n1").phase("Running").uid(uid or name).owner(kind, owner, owner, api_version)


def seen(*changes):
    """What is known after these changes: (before, after, seconds)."""
    found = SeenReplacements()
    for before, after, at_s in changes:
        found.take(before.build() if before else None, after.build() if after else None, at_s)
    return set(found.rules(ReplacementRules()).seen)


ONE = pod("a")


@pytest.mark.parametrize("changes", [
    [(ONE, None, 0.0), (None, pod("b"), 1.0)],
    [(ONE, ONE.deleting(), 0.0), (None, pod("b"), 1.0), (ONE.deleting(), None, 30.0)],
    [(ONE, pod("a", "again"), 0.0)],
    [(ONE, None, 0.0), (None, pod("b").set("spec.nodeName", ""), WITHIN_S)],
], ids=["gone", "ending", "under its name", "late"])  # fmt: skip
def test_a_new_pod_of_the_owner_that_lost_one_shows_it(changes):
    assert seen(*changes) == {WIDGET}


@pytest.mark.parametrize("changes", [
    [(None, ONE, 0.0), (None, pod("b"), 1.0)],
    [(None, pod("b"), 0.0), (ONE, None, 1.0)],
    [(ONE, None, 0.0), (None, pod("b"), WITHIN_S + 1.0)],
    [(ONE, None, 0.0), (None, pod("b", owner="other"), 1.0)],
    [(ONE.phase("Failed"), None, 0.0), (None, pod("b"), 1.0)],
    [(ONE.phase("Succeeded"), None, 0.0), (None, pod("b"), 1.0)],
    [(ONE.set("spec.nodeName", ""), None, 0.0), (None, pod("b"), 1.0)],
    [(ONE.set("spec.restartPolicy", "Never"), None, 0.0), (None, pod("b").set("spec.restartPolicy", "Never"), 1.0)],
    [(pod("a", kind="Deployment", api_version="apps/v1"), None, 0.0), (None, pod("b", kind="Deployment", api_version="apps/v1"), 1.0)],
], ids=["scaled up", "before the loss", "too late", "another owner", "failed", "succeeded", "not bound", "runs to its end", "of Kubernetes"])  # fmt: skip
def test_anything_else_shows_nothing(changes):
    assert seen(*changes) == set()


def test_it_counts_in_its_namespace_only_and_nobody_fills_the_memory():
    found = SeenReplacements()
    for number in range(300):
        one = pod("a", kind=f"Kind{number}").set("metadata.namespace", "evil").build()
        two = pod("b", kind=f"Kind{number}").set("metadata.namespace", "evil").build()
        found.take(one, None, 0.0)
        found.take(None, two, 0.0)
    assert len(found.rules(ReplacementRules()).seen) == 100
    found.take(ONE.build(), None, 0.0)
    assert found.take(None, pod("b").build(), 0.0)
    assert {k.namespace for k in found.rules(ReplacementRules()).seen} == {"evil", "default"}


def test_what_is_configured_stays_and_a_change_of_it_is_seen():
    found = SeenReplacements()
    first, second = ReplacementRules(jobs=True), ReplacementRules(jobs=False)
    assert found.rules(first) is found.rules(first)
    assert (found.rules(first).jobs, found.rules(second).jobs) == (True, False)
    assert found.rules(first).watched == BUILT_IN
