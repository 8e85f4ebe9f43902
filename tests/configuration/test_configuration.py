"""The configuration document: strict, with every problem named, and a known table behind the one knob."""

import math
from pathlib import Path

import pytest

from rescheduler.configuration.document import default_configuration, parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.configuration.process_sections import GateMode, GateSection
from rescheduler.controller.assembly import machine_settings
from rescheduler.model.migration import MoveMode
from rescheduler.planning.limits import RequestedLimits, limits_for
from rescheduler.reservations.quota import Quota
from rescheduler.reservations.settings import EngineChoice

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
DOCUMENTS = sorted((Path(__file__).parents[2] / "policies").glob("*.yaml"))


def problems(text):
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(text, "c.yaml")
    return caught.value.problems


def test_the_document_of_the_design():
    found = parse_configuration(
        HEAD
        + """\
aggressiveness: balanced
interval: 60s
mode: Auto
limits: {movesAtOnce: 5, movesPerHour: 60, perNode: 2, perNamespace: 5, perWorkload: 1, minimumGain: 0.05, workloadCooldown: 30m, requested: {movesPerHour: 90, workloadCooldown: 2m}}
reservations: {engine: Auto, ttl: 5m, namespace: rescheduler}
protections: {priorityThreshold: 1000000, minReplicas: 1, minAge: 0s, localStorage: true, persistentVolumes: true, namespaces: {exclude: [kube-system]}}
policies:
- name: LowNodeUtilization
  thresholds: {cpu: 20, memory: 20, pods: 20}
  targetThresholds: {cpu: 50, memory: 50, pods: 50}
- name: NodeAffinity
  types: [required, preferred]
- name: InterPodAntiAffinity
  enabled: false
  labelSelector: {matchLabels: {tier: web}}
leaderElection: {enabled: true}
server: {port: 8080}
""",
        "c.yaml",
    )
    assert found.interval_s == 60
    assert found.limits.workload_cooldown_s == 1800
    assert found.limits.requested == RequestedLimits(moves_per_hour=90, workload_cooldown_s=120.0)
    assert found.reservations.engine is EngineChoice.AUTO
    assert found.protections.namespaces.exclude == ("kube-system",)
    assert [p.name for p in found.policies] == ["LowNodeUtilization", "NodeAffinity", "InterPodAntiAffinity"]
    assert [p.name for p in found.build_policies()] == [
        "LowNodeUtilization",
        "NodeAffinity",
        "WorkloadSpread",
    ]


def test_defaults_come_from_the_knob_and_each_can_be_overridden():
    found = parse_configuration(HEAD + "aggressiveness: 0.9\nlimits: {perNode: 7}\n", "c.yaml")
    expected = limits_for(0.9)
    assert found.limits.per_node == 7
    assert found.limits.moves_per_hour == expected.moves_per_hour
    assert found.limits.minimum_gain == expected.minimum_gain
    assert found.limits.workload_cooldown_s == expected.workload_cooldown_s


def test_without_a_document_the_balanced_defaults_hold():
    found = default_configuration()
    assert found.aggressiveness == 0.5
    assert found.mode is MoveMode.AUTO
    assert "HighNodeUtilization" not in [p.name for p in found.policies]
    assert found.policies


@pytest.mark.parametrize(("text", "line", "words"), [
    (HEAD + "aggressivness: 1\n", 3, "unknown key"),
    (HEAD + "aggressiveness: 1.5\n", 3, "from 0 to 1"),
    (HEAD + "aggressiveness: wild\n", 3, "conservative"),
    (HEAD + "aggressiveness: true\n", 3, "from 0 to 1"),
    (HEAD + "interval: 60\n", 3, "not a duration"),
    (HEAD + "interval: soon\n", 3, "90s"),
    (HEAD + "interval: 1ms\n", 3, "at least 1s"),
    (HEAD + "mode: Fast\n", 3, "Fast"),
    (HEAD + "limits:\n  movesAtOnce: 1\n  perNod: 3\n", 5, "known keys"),
    (HEAD + "limits:\n  movesAtOnce: -1\n", 4, "at least 0"),
    (HEAD + "limits:\n  minimumGain: 3\n", 4, "at most 1"),
    (HEAD + "limits: [1]\n", 3, "limits: is a list, not a mapping"),
    (HEAD + "limits:\n  movesPerHour: many\n", 4, "limits.movesPerHour: is a text, not a whole number"),
    (HEAD + "protections:\n  localStorage: 1\n", 4, "is a whole number, not true or false"),
    (HEAD + "policies:\n- name: NodeTaints\n  args: {}\n", 5, "beside 'name', without 'args'"),
    (HEAD + "limits:\n  requested: {movesPerHour: -1}\n", 4, "at least 0"),
    (HEAD + "limits:\n  requested: {workloadCooldown: soon}\n", 4, "duration"),
    (HEAD + "limits:\n  requested:\n    perNode: 3\n", 5, "(known keys: movesPerHour, workloadCooldown)"),
    (HEAD + "protections:\n  localStorage: on\n", 4, "write true or false"),
    (HEAD + "protections:\n  namespaces: {include: [a], exclude: [b]}\n", 4, "both include and exclude"),
    (HEAD + "policies:\n- name: NodeTaint\n", 4, "known policies"),
    (HEAD + "policies:\n- enabled: true\n", 4, "has no name"),
    (HEAD + "policies:\n- name: NodeTaints\n  mode: Fast\n", 5, "Fast"),
    (HEAD + "policies:\n- name: NodeTaints\n  mode: Auto\n", 5, "Auto"),
    (HEAD + "policies:\n- name: NodeTaints\n  mode: Soft\n", 5, "Soft"),
    (HEAD + "policies:\n- name: NodeTaints\n- name: NodeTaints\n  enabled: false\n", 5, "another entry is NodeTaints, too (write each into a profile of its own"),
    (HEAD + "profiles:\n- name: a\n  policies:\n  - name: NodeTaints\n  - name: NodeTaints\n", 7, "profiles[0].policies[1].name: another entry"),
    (HEAD + "protections:\n  namespaces:\n    include:\n    - a\n    - team-*\n", 7, "'team-*' is no namespace"),
    (HEAD + "failedPods:\n  namespaces: {exclude: [Shop]}\n", 4, "exclude[0]: 'Shop' is no namespace"),
    (HEAD + "policies:\n- name: NodeTaints\n- name: LowNodeUtilization\n  thresholds: {cpu: high}\n", 6, "policies[1].thresholds.cpu: is a text, not a number"),
    (HEAD + "policies:\n- name: LowNodeUtilization\n  thresholds: {cpu: 120}\n", 5, "percent"),
    (HEAD + "policies:\n- name: PendingPods\n  after: soon\n", 5, "90s, 5m or 1h30m"),
    (HEAD + "policies:\n- name: PendingPods\n  after: -1m\n", 5, "after: is -1m (must be at least 0s)"),
    (HEAD + "policies:\n- name: PendingPods\n  afterNodeAutoscaler: 10\n", 5, "is 10, not a duration"),
    (HEAD + "policies:\n- name: HighNodeUtilization\n  keptEmptyFor: 9m\n", 5, "must be at least 10m)"),
    (HEAD + "policies:\n- name: HighNodeUtilization\n  keptEmptyFor: 721h\n", 5, "must be at most 720h)"),
    (HEAD + "policies:\n- name: NodeAffinity\n  labelSelector: {matchExpressions: [{key: a, operator: Near}]}\n", 5, "Near"),
    (HEAD + "server: {port: 70000}\n", 3, "65535"),
    (HEAD + "protections: {minReplicas: -2}\n", 3, "minReplicas: is -2"),
    (HEAD + "reservations:\n  shares:\n    'shop ': {cpu: 1}\n", 5, "shares.shop : is no namespace"),
    (HEAD + "reservations:\n  shares: {'**': {cpu: 1}}\n", 4, "or '*' for each namespace"),
    (HEAD + "reservations:\n  pauseImage: ' pause:3.10'\n", 4, "pauseImage: is ' pause:3.10'"),
    (HEAD + "gate: {url: 'https://here:65536'}\n", 3, "write https://HOST or https://HOST:PORT"),
    ("kind: ReschedulerConfiguration\n", 1, "apiVersion"),
    ("apiVersion: v9\nkind: ReschedulerConfiguration\n", 1, "reads only"),
    ("- 1\n", 1, "expected a mapping, found a list"),
    ("", 1, "expected a mapping"),
])  # fmt: skip
def test_every_problem_names_file_line_and_remedy(text, line, words):
    found = problems(text)
    texts = [str(p) for p in found]
    assert any(p.line == line and words in str(p) for p in found), texts
    assert all(text.startswith("c.yaml:") for text in texts)


@pytest.mark.parametrize(("text", "words"), [
    ("agressiveness: 1\n", "agressiveness: unknown key; did you mean aggressiveness? (known keys: "),
    ("limits: {moves_per_hour: 1}\n", "unknown key; did you mean movesPerHour? (known keys: "),
    ("limits: {requested: {movePerHour: 1}}\n", "did you mean movesPerHour? (known keys: movesPerHour, "),
    ("protections: {namespces: {}}\n", "unknown key; did you mean namespaces? (known keys: "),
    ("policies:\n- name: NodeTaint\n", "unknown policy 'NodeTaint'; did you mean NodeTaints? (known policies: "),
    ("policies:\n- name: RemovePodsViolatingTopologySpreadConstraint\n", "Constraint'; did you mean TopologySpread? (known policies: "),
    ("policies:\n- name: LowNodeUtilization\n  treshold: {cpu: 20}\n", "policies[0].treshold: unknown key; did you mean thresholds? (known keys: "),
    ("mode: reservefirst\n", "mode: is 'reservefirst'; did you mean ReserveFirst? (use one of "),
    ("zebra: 1\n", "zebra: unknown key (known keys: "),
])  # fmt: skip
def test_what_was_mistyped_is_answered_with_the_nearest_name(text, words):
    assert words in str(problems(HEAD + text)[0])


def test_all_problems_are_reported_together():
    found = problems(HEAD + "interval: x\nmode: y\nlimits: {perNode: -1}\n")
    assert [p.line for p in found] == [3, 4, 5]
    found = problems(
        HEAD + "limits:\n  perNode: -1\n  perWorkload: many\n  zebra: 1\n  workloadCooldown: x\n"
    )
    assert [p.line for p in found] == [4, 5, 6, 7]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_ready_made_documents_are_valid(path):
    assert parse_configuration(path.read_bytes(), str(path)).build_policies()


def test_there_are_ready_made_documents():
    assert {"conservative.yaml", "balanced.yaml", "aggressive.yaml"} <= {p.name for p in DOCUMENTS}


def test_the_gate_is_chosen_by_discovery_unless_told_otherwise():
    assert default_configuration().gate == GateSection(mode=GateMode.AUTO, port=9443, url="")
    text = HEAD + "gate: {mode: Webhook, port: 8443, url: 'https://10.0.0.7:8443'}\n"
    expected = GateSection(mode=GateMode.WEBHOOK, port=8443, url="https://10.0.0.7:8443")
    assert parse_configuration(text, "c.yaml").gate == expected


@pytest.mark.parametrize(("gate", "field"), [
    ("{mode: Hook}", "gate.mode"),
    ("{port: 0}", "gate.port"),
    ("{port: 70000}", "gate.port"),
    ("{url: 'http://here'}", "gate.url"),
    ("{url: 'https://here/?a=b'}", "gate.url"),
    ("{certificate: x}", "gate.certificate"),
])  # fmt: skip
def test_a_wrong_gate_section_is_refused_with_its_place(gate, field):
    (problem,) = problems(HEAD + f"gate: {gate}\n")
    assert (problem.field, problem.line) == (field, 3)
    assert problem.remedy or field == "gate.mode"


def test_a_policy_that_is_on_declares_the_mode_of_its_own_moves():
    text = (
        HEAD
        + """\
mode: ReserveFirst
policies:
- {name: NodeTaints, mode: StartFirst}
- {name: NodeAffinity, mode: ReserveFirst}
- {name: TopologySpread, mode: StartFirst, enabled: false}
- name: InterPodAntiAffinity
"""
    )
    found = parse_configuration(text, "c.yaml")
    assert found.inputs().modes == {
        "NodeTaints": MoveMode.START_FIRST,
        "NodeAffinity": MoveMode.RESERVE_FIRST,
    }
    assert machine_settings(found).migrations.start_first_policies == {"NodeTaints"}


@pytest.mark.parametrize(
    ("guard", "limit_s"),
    [("{limit: 2m}", 120.0), ("{whenNoRoom: Refuse}", math.inf), ("{enabled: false}", math.inf)],
)
def test_moves_know_when_the_guard_lets_evictions_through_without_room(guard, limit_s):
    found = parse_configuration(f"{HEAD}guard: {guard}\n", "c.yaml")
    assert machine_settings(found).migrations.asked_limit_s == limit_s


def test_a_policy_says_for_how_long_the_node_that_a_pod_leaves_is_avoided():
    entries = "- {name: NodeTaints, hint: 2h}\n- {name: NodeAffinity, hint: 0s}\n- {name: TopologySpread, hint: 1h, enabled: false}\n"
    found = parse_configuration(f"{HEAD}policies:\n{entries}- name: InterPodAntiAffinity\n", "c.yaml")
    assert found.hints == {"NodeTaints": 7200.0, "NodeAffinity": 0.0}


@pytest.mark.parametrize(("entries", "field"), [
    ("[{name: NodeTaints, hint: 8d}]", "policies[0].hint"),
    ("[{name: NodeTaints, hint: 169h}]", "policies[0].hint"),
    ("[{name: NodeTaints, hint: -1s}]", "policies[0].hint"),
])  # fmt: skip
def test_a_wrong_hint_is_refused_with_its_place(entries, field):
    (problem,) = problems(HEAD + f"policies: {entries}\n")
    assert (problem.field, problem.line) == (field, 3)
    assert problem.remedy


def test_the_longest_move_is_never_shorter_than_the_usual_one():
    read = lambda text: parse_configuration(HEAD + f"reservations: {text}\n", "c").reservations  # noqa: E731
    assert (read("{}").longest_ttl_s, read("{ttl: 48h}").longest_ttl_s) == (86_400, 172_800)
    found = read("{ttl: 10m, maxTtl: 1h, maxLifetime: 720h}")
    assert (found.longest_ttl_s, found.max_lifetime_s) == (3600, 2_592_000)
    with pytest.raises(ConfigurationError, match=r"maxTtl.*at least 600s"):
        read("{ttl: 10m, maxTtl: 1m}")
    with pytest.raises(ConfigurationError, match=r"reservations.namespace: is 'No Such'"):
        read('{namespace: "No Such"}')


def test_shares_of_namespaces_are_read_as_amounts():
    found = parse_configuration(
        HEAD
        + 'reservations: {defaultTtl: 0s, shares: {"*": {reservations: 2, cpu: 1500m}, shop: {memory: 1Gi}}}\n',
        "c",
    ).reservations
    assert found.default_ttl_s == 0
    assert found.quotas == {
        "*": Quota(reservations=2, amounts=(("cpu", 1500),)),
        "shop": Quota(amounts=(("memory", 2**30),)),
    }


@pytest.mark.parametrize(("share", "field"), [
    ("{reservations: -1}", "reservations.shares.shop.reservations"),
    ("{reservations: many}", "reservations.shares.shop.reservations"),
    ("{cpu: lots}", "reservations.shares.shop.cpu"),
    ("{cpu: -1}", "reservations.shares.shop.cpu"),
    ("{colour: 1}", "reservations.shares.shop.colour"),
])  # fmt: skip
def test_wrong_shares_are_refused(share, field):
    with pytest.raises(ConfigurationError) as error:
        parse_configuration(HEAD + f"reservations: {{shares: {{shop: {share}}}}}\n", "c")
    assert [p.field for p in error.value.problems] == [field]
