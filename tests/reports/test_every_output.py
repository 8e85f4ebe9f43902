"""Every output form of every policy's plan, of explanations and of the live page, with measured usage: numbers are Python's."""

import dataclasses
import json
import typing

import msgspec
import numpy as np
import pytest
import yaml

from harness import builders as b
from rescheduler.cli.explain import explain
from rescheduler.model.measured import NodeUsage
from rescheduler.model.usage import PodUsage, Readings, usage_key
from rescheduler.planning import badness
from rescheduler.planning import plan as plan_records
from rescheduler.planning.badness import Record
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import PolicySummary
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.reports.cluster_status import ClusterPicture, SeenObjects, Trends, cluster_status, limited
from rescheduler.reports.explanation import explanation_document, explanation_text
from rescheduler.reports.html.page import plan_html
from rescheduler.reports.structured import pretty_json, pretty_yaml
from rescheduler.reports.text import plan_text
from rescheduler.scheduling.state import SchedulingState

SHARES = {"thresholds": {"cpu": 20.0, "memory": 20.0}, "targetThresholds": {"cpu": 50.0, "memory": 50.0}}
CASES = {
    "LowNodeUtilization, requests": ("LowNodeUtilization", SHARES),
    "LowNodeUtilization, measured": ("LowNodeUtilization", {**SHARES, "usage": "actual"}),
    "LowNodeUtilization, deviation": (
        "LowNodeUtilization",
        {
            "thresholds": {"cpu": 10.0},
            "targetThresholds": {"cpu": 10.0},
            "useDeviationThresholds": True,
            "usage": "actual",
        },
    ),
    "TooManyRestarts": ("TooManyRestarts", {"requireHealthyReplicas": False}),
    "PodLifeTime": ("PodLifeTime", {"maxAge": 600.0, "jitter": 0.0}),
    "HighNodeUtilization": ("HighNodeUtilization", {"thresholds": {"cpu": 30.0}}),
    "Defragmentation": ("Defragmentation", {"template": {"cpu": "3"}}),
    **{
        name: (name, {})
        for name in (
            "NodeTaints",
            "NodeHealth",
            "NodeAffinity",
            "InterPodAntiAffinity",
            "PodAffinity",
            "TopologySpread",
            "Duplicates",
            "PendingPods",
        )
    },
}


def cluster():
    """n1 is overfull by requests and by usage; something is badly placed for every policy; one pod waits, one never fits."""
    web = b.replicaset("web").cpu("800m").memory("1Gi").replicas(4).template_label(team="web")
    web = web.spread("topology.kubernetes.io/zone", 1, hard=True, team="web")
    pair = b.replicaset("pair").cpu("100m").replicas(2).template_label(team="pair")
    pair = pair.apart("kubernetes.io/hostname", team="pair")
    alone = b.replicaset("alone").cpu("200m").replicas(1)
    drawn = b.replicaset("drawn").cpu("100m").replicas(1).near("kubernetes.io/hostname", team="pair")
    picky = b.replicaset("picky").cpu("200m").replicas(1).requires_node("disk", "ssd")
    objects = [
        *(b.node(f"n{i}").cpu("4").memory("16Gi").zone("ab"[i % 2]) for i in (1, 2)),
        b.node("n3").cpu("4").memory("16Gi").zone("a").label(disk="ssd"),
        b.node("n4").cpu("4").memory("16Gi").zone("b").taint("maintenance").condition("KernelDeadlock"),
        web,
        pair,
        alone,
        picky,
        drawn,
        *(web.pod(f"web-{i}").on("n1") for i in range(4)),
        *(pair.pod(f"pair-{i}").on("n3") for i in range(2)),
        alone.pod("alone-1").on("n4"),
        picky.pod("picky-1").on("n2").set("status.containerStatuses", [{"name": "c", "restartCount": 200}]),
        drawn.pod("drawn-1").on("n2"),
        b.pod("bare").cpu("1").on("n2"),
        b.pod("large").cpu("3900m").unschedulable(),
        b.pod("huge").cpu("40").unschedulable(),
    ]
    found = b.snapshot(*objects)
    usage = {
        name: NodeUsage(name, cpu, 1 << 30, found.taken_at_s - 30.0)
        for name, cpu in (("n1", 3700), ("n2", 700), ("n3", 100), ("n4", 300))
    }
    readings = Readings.of(
        (usage_key(*key), found.taken_at_s - 30.0, 900.0, 1e8) for key, pod in found.pods.items() if pod.node
    )
    return dataclasses.replace(found, usage=usage, pod_usage=PodUsage.of_readings(readings))


def foreign(value, path=""):
    """Paths to what is neither a record nor a plain Python value, however deep."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from foreign(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, (tuple, list)):
        for index, one in enumerate(value):
            yield from foreign(one, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from foreign(key, f"{path}.keys")
            yield from foreign(one, f"{path}[{key}]")
    elif isinstance(value, (np.generic, np.ndarray)):
        yield f"{path}: {type(value).__name__}"


@pytest.fixture(scope="module", params=CASES, ids=str)
def decision(request):
    name, args = CASES[request.param]
    kind, snapshot = REGISTRY[name], cluster()
    policy = kind.build(msgspec.convert(args, kind.args))
    return snapshot, plan(snapshot, [policy], PlanningInputs(unlimited=True), SchedulingState(snapshot))


def test_every_policy_that_proposes_pods_is_here():
    assert {name for name, _ in CASES.values()} == REGISTRY.keys() - {"WorkloadSpread"}


def test_no_record_has_a_number_of_numpy(decision):
    _, found = decision
    assert found.before.policies[0].badly_placed, "the policy has something to say"
    assert found.moves or found.skipped
    assert not [*foreign(found)]


FORMS = {
    "text": plan_text,
    "wide": lambda found: plan_text(found, width=400),
    "json": lambda found: json.loads(pretty_json(found)),
    "yaml": lambda found: yaml.safe_load(pretty_yaml(found)),
    "html": plan_html,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_plan(decision, form):
    shown = FORMS[form](decision[1])
    assert "np." not in str(shown)
    if form in {"json", "yaml"}:
        assert shown == json.loads(msgspec.json.encode(decision[1]))


def test_the_document_of_the_live_page(decision):
    snapshot, found = decision
    trends = Trends()
    trends.add(found, (), snapshot.taken_at_s)
    picture = ClusterPicture(seen=SeenObjects.of(snapshot), plan=found, samples=trends.samples, dry_run=True)
    document = limited(cluster_status(picture))
    assert not [*foreign(document)]
    assert len(json.loads(msgspec.json.encode(document))["nodes"]) == 4


@pytest.mark.parametrize("name", ["web-0", "alone-1", "bare", "large", "huge"])
def test_every_form_of_an_explanation(name):
    snapshot = cluster()
    (pod,) = (pod for pod in snapshot.pods.values() if pod.name == name)
    found = explain(SchedulingState(snapshot), pod)
    assert len(explanation_document(found)["nodes"]) == 4
    assert "np." not in explanation_text(found)


@pytest.mark.parametrize("module", [plan_records, badness])
def test_records_with_numbers_take_those_of_numpy(module):
    """By type: whatever field a record gets, what is read of it is a number of Python."""
    own = [kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__]
    kinds = [kind for kind in own if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    numbered = [kind for kind in kinds if {int, float} & {*_types(kind)}]
    assert numbered
    assert not [kind.__name__ for kind in numbered if not issubclass(kind, Record)]


def _types(kind):
    """Of its fields, those in unions, too."""
    for hint in typing.get_type_hints(kind).values():
        yield from (hint, *typing.get_args(hint))


def test_records_make_numbers_of_numpy_pythons():
    summary = PolicySummary(name="P", badly_placed=np.int64(3), gain=np.float64(0.5))
    assert not [*foreign(summary)]
    assert not [*foreign(msgspec.structs.replace(summary, gain=np.float64(0.25)))]
    assert (summary.badly_placed, summary.gain) == (3, 0.5)
