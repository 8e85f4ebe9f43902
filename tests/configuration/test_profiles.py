"""Section profiles: policies with protections and node selectors of their own, in one document."""

import pytest

from harness import builders as b
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.scheduling.state import SchedulingState

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
TWO = """\
protections: {priorityThreshold: 500, namespaces: {exclude: [monitoring]}}
profiles:
- name: old
  nodeSelector: {pool: a}
  protections: {minAge: 1h, namespaces: {include: [shop]}}
  policies:
  - {name: PodLifeTime, maxAge: 24h}
  - {name: NodeTaints, mode: StartFirst, hint: 10m}
- name: new
  policies:
  - {name: NodeTaints, nodeSelector: {pool: b}}
"""

FILL_AND_EMPTY = """\
profiles:
- name: a
  policies: [{name: LowNodeUtilization, targetThresholds: {cpu: 50}}]
- name: b
  policies: [{name: HighNodeUtilization, thresholds: {cpu: 20}}]
"""


def parsed(text):
    return parse_configuration(HEAD + text, "c.yaml")


def test_a_profile_adds_to_the_protections_of_the_document_and_to_none_of_another():
    old, new = parsed(TWO).profiles
    assert (old.protections.priority_threshold, old.protections.min_age_s) == (500, 3600)
    assert (new.protections.priority_threshold, new.protections.min_age_s) == (500, 0)
    assert old.protections.namespaces.admits("shop")
    assert not old.protections.namespaces.admits("web")
    assert not new.protections.namespaces.admits("monitoring")


def test_policies_are_named_with_their_profile_wherever_they_are_told_apart():
    found = parsed(TWO)
    names = ["old/PodLifeTime", "old/NodeTaints", "new/NodeTaints"]
    assert [policy.name for policy in found.build_policies()] == [*names, "WorkloadSpread"]
    assert set(found.modes) == set(found.hints) == {"old/NodeTaints"}
    assert set(found.inputs().profiles) == {*names, "WorkloadSpread"}


def test_its_nodes_are_those_of_its_policies():
    assert [p.args.node_selector for p in parsed(TWO).policies] == [
        {"pool": "a"},
        {"pool": "a"},
        {"pool": "b"},
    ]
    cluster = b.snapshot(b.node("n1").label(pool="a"))
    (told,) = parsed(TWO).unknown_to(SchedulingState(cluster).cluster.nodes)
    assert told.startswith("profiles[1].policies[0].nodeSelector of new/NodeTaints: no node has these labels")


def test_a_window_names_a_policy_of_one_profile_or_of_all():
    at = "limits: {windows: [{cron: 0 1 * * *, duration: 1h, policies: [%s]}]}\n"
    (one,) = parsed(at % "old/NodeTaints" + TWO).limits.windows
    assert [one.serves(name) for name in ("old/NodeTaints", "new/NodeTaints")] == [True, False]
    (both,) = parsed(at % "NodeTaints" + TWO).limits.windows
    assert both.serves("old/NodeTaints")
    assert both.serves("new/NodeTaints")
    with pytest.raises(ConfigurationError, match=r"is 'odd/NodeTaints'; did you mean old/NodeTaints\?"):
        parsed(at % "odd/NodeTaints" + TWO)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("profiles: []\n", 3, "is no list of profiles (write '- name: NAME' entries"),
        ("profiles: {name: a}\n", 3, "is no list of profiles"),
        ("profiles:\n- {policies: []}\n", 4, "has no name (add 'name:'"),
        ("profiles:\n- {name: a}\n", 4, "'policies' is missing"),
        ("profiles:\n- {name: a, policies: {}}\n", 4, "is not a list"),
        ("profiles:\n- name: a/b\n  policies: []\n", 4, "is 'a/b' (use letters, digits and '-'"),
        ("profiles:\n- {name: a, policies: []}\n- {name: a, policies: []}\n", 5, "another profile has this name"),
        ("policies: []\nprofiles:\n- {name: a, policies: []}\n", 3, "stands beside profiles"),
        ("profiles:\n- name: a\n  limits: {}\n  policies: []\n", 5, "unknown key"),
        ("profiles:\n- name: a\n  protections: {minAge: 5}\n  policies: []\n", 5, "is 5, not a duration"),
        ("profiles:\n- name: a\n  protections: []\n  policies: []\n", 5, "is a list, not a mapping"),
        ("profiles:\n- name: a\n  policies:\n  - name: NodeTants\n", 6, "did you mean NodeTaints?"),
        (
            "profiles:\n- name: a\n  nodeSelector: {pool: a}\n  policies:\n  - {name: NodeTaints, nodeSelector: {pool: b}}\n",
            7,
            "is 'b', but 'a' for all policies of the profile (keep one of them",
        ),
        (
            FILL_AND_EMPTY,
            3,
            "both on for the same nodes",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line_and_remedy(text, line, words):
    with pytest.raises(ConfigurationError) as caught:
        parsed(text)
    told = [(problem.line, str(problem)) for problem in caught.value.problems]
    assert any(number == line and words in message for number, message in told), told


def test_profiles_with_nodes_of_their_own_may_fill_and_empty():
    text = FILL_AND_EMPTY.replace("name: a\n", "name: a\n  nodeSelector: {pool: a}\n")
    assert len(parsed(text.replace("name: b\n", "name: b\n  nodeSelector: {pool: b}\n")).policies) == 2


def test_nodes_that_a_policy_of_a_profile_empties_are_kept_for_its_moves():
    (policy,) = parsed(
        "profiles:\n- name: a\n  nodeSelector: {pool: a}\n"
        "  policies: [{name: HighNodeUtilization, thresholds: {cpu: 20}, emptiedNodes: cordon}]\n"
    ).policies
    assert policy.keeping is not None
    assert (policy.keeping.policy, policy.keeping.node_labels) == ("a/HighNodeUtilization", (("pool", "a"),))
