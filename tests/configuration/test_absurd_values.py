"""What no author means is refused with its line and the remedy: keys without a value, absurd numbers, unknown words."""

import pytest

from rescheduler.configuration.document import SECTIONS, keys, parse_configuration
from rescheduler.configuration.problems import ConfigurationError

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"


def problems(text):
    with pytest.raises(ConfigurationError) as refused:
        parse_configuration(HEAD + text, "c.yaml")
    return [str(problem) for problem in refused.value.problems]


def nested(key, value):
    head, dot, rest = key.partition(".")
    return f"{head}:\n  {rest}: {value}\n" if dot else f"{key}: {value}\n"


@pytest.mark.parametrize("key", keys())
def test_no_key_may_be_without_a_value(key):
    (problem,) = problems(nested(key, "null"))
    line = 4 if "." in key else 3
    assert problem == f"c.yaml:{line}: {key}: has no value (write one, or remove the key)"


@pytest.mark.parametrize("section", SECTIONS)
def test_no_section_may_be_empty_of_everything(section):
    assert problems(f"{section}:\n") == [f"c.yaml:3: {section}: has no value (write one, or remove the key)"]


@pytest.mark.crossed
@pytest.mark.parametrize("key", keys())
@pytest.mark.parametrize("number", ["1000000000000000000000", "-1000000000000000000000", "1e300"])
def test_no_key_takes_an_absurd_number(key, number):
    found = problems(nested(key, number))
    assert all(problem.startswith(("c.yaml:3: ", "c.yaml:4: ")) for problem in found)


@pytest.mark.parametrize(("text", "said"), [
    ("mode: hard\n", "3: mode: is 'hard' (use one of Auto, ReserveFirst, StartFirst, Soft)"),
    ("mode: 5\n", "(use one of Auto, ReserveFirst, StartFirst, Soft)"),
    ("gate: {mode: maybe}\n", "(use one of Auto, Policy, Webhook)"),
    ("reservations: {engine: none}\n", "(use one of Auto, Placeholder, Koordinator)"),
    ("policies:\n- name: NodeTaints\n  mode: hard\n", "5: policies[0].mode: is 'hard'"),
    ("policies:\n- name: NodeTaints\n  mode: hard\n", "(use one of ReserveFirst, StartFirst)"),
    ("leaderElection: {enabled: perhaps}\n", "(use one of true, false)"),
    ("limits: {movesAtOnce: 1000000000000000000000}\n", "is 1e+21 (must be at most 1,000,000)"),
    ("protections: {priorityThreshold: 3000000000}\n", "is 3e+09 (must be at most 2,147,483,647)"),
    ("reservations: {ttl: 200000h}\n", "reservations.ttl: is 200000h (must be at most 87600h)"),
    ("reservations: {shares: {a: {reservations: 100000000000}}}\n", "from 0 to 2,147,483,647"),
    ("reservations: {shares: {a: {memory: 10E}}}\n", "more than any cluster has"),
    ("policies:\n- name: LowNodeUtilization\n  thresholds: {gpu: 20}\n  targetThresholds: {gpu: 50}\n",
        "c.yaml:5: policies[0].thresholds.gpu: is no resource that pods request: use cpu, memory, pods or example.com/gpu"),
    ("policies:\n- name: HighNodeUtilization\n  thresholds: {GPU: 20}\n", "is no resource that pods request"),
    ("policies:\n- null\n", "c.yaml:4: policies[0]: has no value"),
])  # fmt: skip
def test_the_remedy_says_what_may_stand_there(text, said):
    assert any(said in problem for problem in problems(text)), problems(text)


@pytest.mark.parametrize(("policy", "argument", "said"), [
    ("PendingPods", "depth: 0", "policies[0].depth: is 0 (must be at least 1)"),
    ("PendingPods", "depth: 4", "policies[0].depth: is 4 (must be at most 3)"),
    ("PendingPods", "mostMoves: 0", "policies[0].mostMoves: is 0 (must be at least 1)"),
    ("PendingPods", "mostMoves: 9", "policies[0].mostMoves: is 9 (must be at most 8)"),
    ("LowNodeUtilization", "numberOfNodes: 0", "policies[0].numberOfNodes: is 0 (must be at least 1)"),
    ("HighNodeUtilization", "numberOfNodes: 0", "policies[0].numberOfNodes: is 0 (must be at least 1)"),
    ("LowNodeUtilization", "usage: guessed", "is 'guessed' (use one of actual, requests)"),
    ("NodeAffinity", "types: [require]", "types[0]: is 'require'; did you mean required? (use one of "),
    ("NodeAffinity", "minimumDifference: 0", "is 0 (must be above 0)"),
    ("NodeAffinity", "minimumScoreDifference: 1.5", "is 1.5 (must be at most 1)"),
    ("TopologySpread", "constraints: [Maybe]", "constraints[0]: is 'Maybe' (use one of "),
])  # fmt: skip
def test_arguments_of_policies_have_bounds(policy, argument, said):
    (problem,) = problems(f"policies:\n- name: {policy}\n  {argument}\n")
    assert problem.startswith("c.yaml:5: policies[0].")
    assert said in problem


def test_resources_of_devices_may_have_thresholds():
    text = "policies:\n- name: HighNodeUtilization\n  thresholds: {nvidia.com/gpu: 20, hugepages-2Mi: 5}\n"
    assert parse_configuration(HEAD + text, "c.yaml").policies
