"""What ConfigMap avoid-nodes contains: keys of a controller in its namespace, and a bounded share for each namespace."""

from rescheduler.coordination.key_stores import MOST_BYTES, MOST_NODES, avoid_keys
from rescheduler.model import names
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.records import Node
from rescheduler.model.selectors import LabelSet

NOW = 1_000.0


def entry(uid="u", namespace="shop", ends_s=NOW + 60):
    return AvoidEntry("ReplicaSet", "web", uid, namespace, "NodeTaints", ends_s)


def node(name, *entries, host=""):
    labels = LabelSet({names.HOSTNAME: host}) if host else LabelSet({})
    return Node(name=name, labels=labels, avoid=entries)


def test_a_key_names_controller_and_namespace():
    hinted = [node("n2", entry(), entry(namespace="other")), node("n1", entry(), host="h1")]
    assert avoid_keys(hinted, NOW) == {"controller.other.u": "n2", "controller.shop.u": "h1,n2"}


def test_what_has_ended_or_names_no_namespace_is_left_out():
    assert avoid_keys([node("n1", entry(ends_s=NOW), entry(namespace=""), entry(uid=""))], NOW) == {}


def test_a_controller_avoids_so_many_nodes_and_no_more():
    (listed,) = avoid_keys([node(f"n{i:03}", entry()) for i in range(3 * MOST_NODES)], NOW).values()
    assert len(listed.split(",")) == MOST_NODES


def test_however_many_one_namespace_has_the_others_find_place_and_all_stays_bounded():
    many = [node(f"{i:06}-" + "n" * 200, entry(uid=f"{i:036}", namespace="a-flood")) for i in range(4_000)]
    few = [node("n1", entry(uid=f"u{i}", namespace="z-shop")) for i in range(20)]
    found = avoid_keys([*many, *few], NOW)
    assert sum(key.startswith("controller.z-shop.") for key in found) == 20
    assert 0.9 * MOST_BYTES < sum(len(key) + len(text) for key, text in found.items()) <= MOST_BYTES
    assert found == avoid_keys([*few, *many], NOW)


def test_a_controller_whose_pods_the_api_server_refuses_gets_no_hint():
    """A policy of the cluster may refuse them for the node affinity that the hint adds."""
    hinted = [node("n1", entry(), entry(uid="v"))]
    assert avoid_keys(hinted, NOW, {"u"}.__contains__) == {"controller.shop.v": "n1"}
