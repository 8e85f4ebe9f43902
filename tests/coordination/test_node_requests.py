"""Which moves ask the node autoscaler for a node, how many at once, and what their pods look like."""

from collections import Counter
from functools import partial

import msgspec
import pytest

from harness import builders as b
from rescheduler.coordination.node_requests import MOST, asking, own_deployment, withdrawn
from rescheduler.migrations.migration_lifecycle import MigrationReason as Why
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import (
    CREATED_BY,
    LABEL_CREATED_BY,
    LABEL_PLACEHOLDER,
    NODE_REQUEST,
    NODE_REQUEST_SCHEDULER,
)
from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.node_request import holds_nothing, request_key, request_node
from rescheduler.reservations.settings import ReservationSettings
from tests import records

OURS = "rescheduler"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


move = partial(records.move, namespace="shop", reason=Why.NO_TARGET)


def found(*moves, standing=()):
    snapshot = Snapshot(taken_at_s=0.0, migrations={m.key: m for m in moves})
    pods = {pod.key: pod for pod in standing}
    asks = asking(snapshot, {}, pods, OURS)
    return asks, list(withdrawn(pods, asks, OURS))


def request(of, namespace=OURS, scheduler=NODE_REQUEST_SCHEDULER):
    key = request_key(of, OURS)
    pod = b.pod(key.name, namespace).label({LABEL_PLACEHOLDER: NODE_REQUEST})
    return pod.scheduler(scheduler).build()


def names_of(asks):
    return [one.source.name for one in asks]


@pytest.mark.parametrize("fields", [
    {"target_node": "n1"},
    {"reservation_ref": "room"},
    {"paused": True},
    {"deleting": True},
    {"after": (ObjectKey("shop", "b"),)},
    {"phase": MigrationPhase.RESERVING},
    {"reason": Why.DISRUPTION_BUDGET},
    {"reason": Why.LIMIT_HOUR},
    {"policy": "NodeTaints", "labels": LabelSet({LABEL_CREATED_BY: CREATED_BY})},
], ids=str)  # fmt: skip
def test_who_waits_for_something_else_does_not_begin_to_ask(fields):
    assert names_of(found(move("a"))[0]) == ["a"]
    assert found(move("a", **fields))[0] == []


@pytest.mark.parametrize("reason", [Why.LIMIT_HOUR, Why.OWNER_BUSY, Why.RECORDING, Why.HIGHER_PRIORITY_WAITS])
def test_who_asks_already_goes_on_while_it_waits_without_a_target(reason):
    waits = move("a", reason=reason)
    asks, gone = found(waits, standing=[request(waits)])
    assert (names_of(asks), gone) == (["a"], [])


@pytest.mark.parametrize("reason", [Why.DISRUPTION_BUDGET, Why.TARGET_UNSCHEDULABLE, Why.PAUSED])
def test_with_a_target_its_pod_goes(reason):
    waits = move("a", reason=reason)
    asks, gone = found(waits, standing=[request(waits)])
    assert (asks, gone) == ([], [request(waits)])


def test_one_that_admission_has_given_to_a_scheduler_goes():
    waits = move("a")
    asks, gone = found(waits, standing=[changed := request(waits, scheduler="volcano")])
    assert (names_of(asks), gone) == (["a"], [changed])


def test_pods_of_others_with_that_label_are_left_alone():
    assert found(standing=[request(move("a"), namespace="shop")])[1] == []


def test_however_many_one_namespace_has_the_others_have_their_turn():
    greedy = [move(f"g{i}", namespace="greedy", created_at_s=float(i)) for i in range(3 * MOST)]
    standing = [request(one) for one in greedy[:MOST]]
    late = [move(f"s{i}", created_at_s=1e6) for i in range(3)]
    asks, gone = found(*greedy, *late, standing=standing)
    assert len(asks) == MOST
    assert Counter(one.source.namespace for one in asks) == {"greedy": MOST - 3, "shop": 3}
    assert len(gone) == 3


def shape(pod, volumes=()):
    made = msgspec.json.decode(request_node(move("m"), pod, volumes, ReservationSettings(), None).body)
    assert holds_nothing(b.pod("x").label(made["metadata"]["labels"]).build())
    return made["spec"]


def test_what_the_replacement_demands_of_other_pods_is_said_of_its_own_namespace():
    pod = b.pod("web", "shop").apart(HOST, app="web").apart(ZONE, app="web").near(ZONE, app="db").build()
    affinity = shape(pod)["affinity"]
    assert affinity["podAntiAffinity"][REQUIRED] == [
        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": ["shop"]}
    ]
    assert affinity["podAffinity"][REQUIRED] == [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}, "namespaces": ["shop"]}
    ]


def test_pods_that_a_spread_keeps_apart_are_said_to_be_and_those_that_it_does_not_count_are_not():
    apart = shape(b.pod("web", "shop").label(app="web").spread(HOST, app="web").build())
    assert apart["affinity"]["podAntiAffinity"][REQUIRED][0]["labelSelector"] == {
        "matchLabels": {"app": "web"}
    }
    assert "affinity" not in shape(b.pod("web", "shop").label(app="web").spread(HOST).build())


def test_it_speaks_of_no_node_by_name():
    """Karpenter refuses such pods."""
    pod = b.pod("web", "shop").on("n1").requires_node("disk", "ssd").build()
    volume = b.volume("v").build().node_affinity
    text = msgspec.json.encode(shape(pod, () if volume is None else (volume,))).decode()
    assert "matchFields" not in text
    assert HOST not in text
    assert "nodeName" not in text
    assert '"ssd"' in text


def test_its_labels_are_none_of_the_workload():
    pod = b.pod("web", "shop").label(app="web").build()
    made = msgspec.json.decode(request_node(move("m"), pod, (), ReservationSettings(), None).body)
    assert "app" not in made["metadata"]["labels"]


def test_it_goes_with_the_deployment_of_the_controller():
    labels = {"app.kubernetes.io/name": "rescheduler", "app.kubernetes.io/component": "controller"}
    ours = b.deployment("any", OURS).template_label(labels).uid("d")
    others = (b.deployment("any", "shop").template_label(labels), b.deployment("other", OURS))
    assert own_deployment(b.snapshot(*others), OURS) is None
    found = own_deployment(b.snapshot(*others, ours), OURS)
    call = request_node(move("m"), b.pod("web", "shop").build(), (), ReservationSettings(), found)
    (owner,) = msgspec.json.decode(call.body)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Deployment", "any", "d")
    assert not owner["controller"], "else its ReplicaSets would count it"
