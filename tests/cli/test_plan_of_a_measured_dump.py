"""``plan --from`` with ``usage: actual``: NodeMetrics of the dump decide, and without them nothing does."""

import json

import pytest

from harness.builders import node, replicaset

DOCUMENT = """
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
policies:
- name: LowNodeUtilization
  usage: actual
  thresholds: {cpu: 20}
  targetThresholds: {cpu: 50}
"""
NODES = [f"n{i}" for i in range(5)]
WEB = replicaset("web", "shop").cpu("100m").replicas(20)
CLUSTER = [
    *(node(name).cpu("4") for name in NODES),
    WEB,
    *(WEB.pod(f"web-{i}").on(NODES[i % len(NODES)]) for i in range(20)),
]


def measurements(at, hot="3600m"):
    return [
        {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "NodeMetrics",
            "metadata": {"name": name},
            "timestamp": at,
            "usage": {"cpu": hot if name == "n0" else "400m", "memory": "1Gi"},
        }
        for name in NODES
    ]


@pytest.fixture
def planned(command, dump, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(DOCUMENT)

    def run(objects, *more, form="json"):
        manifests = [one if isinstance(one, dict) else one.manifest() for one in objects]
        result = command("plan", "--from", dump(manifests), "--config", config, "-o", form, *more)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout) if form == "json" else result.stdout

    return run


def test_the_node_that_is_measured_as_too_full_is_relieved(planned):
    moves = planned([*CLUSTER, *measurements("2027-01-01T00:00:00Z")])["moves"]
    assert moves
    assert {move["from"] for move in moves} == {"n0"}


def test_an_evenly_used_cluster_rests(planned):
    assert planned([*CLUSTER, *measurements("2027-01-01T00:00:00Z", hot="400m")])["moves"] == []


def test_without_measurements_or_with_old_ones_nothing_moves(planned):
    assert planned(CLUSTER)["moves"] == []
    late = ("--now", "2027-01-01T01:00:00Z")
    assert planned([*CLUSTER, *measurements("2027-01-01T00:00:00Z")], *late)["moves"] == []


def test_what_is_used_stands_beside_what_is_requested(planned):
    objects = [*CLUSTER, *measurements("2027-01-01T00:00:00Z")]
    nodes = {one["name"]: one for one in planned(objects)["before"]["nodes"]}
    assert (nodes["n0"]["cpuUsedMilli"], nodes["n1"]["cpuUsedMilli"]) == (3600, 400)
    text = planned(objects, form="text")
    assert "CPU USED NOW" in text
    assert "90%" in next(line for line in text.splitlines() if line.lstrip().startswith("n0 "))


@pytest.mark.parametrize("more", [(), ("--now", "2027-01-01T01:00:00Z")])
def test_nothing_is_said_to_be_used_where_that_is_unknown(planned, more):
    objects = [*CLUSTER, *(measurements("2027-01-01T00:00:00Z") if more else ())]
    assert not any("cpuUsedMilli" in one for one in planned(objects, *more)["before"]["nodes"])
    assert "USED NOW" not in planned(objects, *more, form="text")


@pytest.mark.parametrize("form", ["yaml", "html", "wide", "name"])
def test_every_form_prints_a_measured_plan(planned, form):
    assert planned([*CLUSTER, *measurements("2027-01-01T00:00:00Z")], form=form)
