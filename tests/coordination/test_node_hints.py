"""The hints of a node are written together: those that moves leave, without those that are outdated."""

import json

import msgspec
import pytest

from rescheduler.coordination.node_hints import NodeHints
from rescheduler.model.names import ANNOTATION_AVOID
from rescheduler.model.records import Node, OwnerRef
from rescheduler.planning.avoid import LIMIT, entry_for

NOW = 1000.0
OWNERS = [OwnerRef("apps/v1", "ReplicaSet", f"rs{n}", f"rs{n}") for n in range(LIMIT + 2)]
CONTROLLERS = [owner.uid for owner in OWNERS]


def hint(number, ttl_s=60.0):
    return entry_for(OWNERS[number], "shop", "NodeTaints", NOW, ttl_s)


def written(hints, *nodes, now_s=NOW):
    """By node, the controllers of the list that is written, each with its end."""
    hinted = [node for node in nodes if node.avoid]
    calls = hints.changes({node.name: node for node in nodes}, hinted, CONTROLLERS, now_s)
    lists = {
        call.key.name: json.loads(call.body)["metadata"]["annotations"][ANNOTATION_AVOID] for call in calls
    }
    return {name: [one["controllerUid"] for one in json.loads(text or "[]")] for name, text in lists.items()}


def node(*entries, name="n1"):
    return Node(name=name, avoid=entries)


def left(*entries):
    hints = NodeHints()
    for entry in entries:
        hints.leave("n1", entry, NOW)
    return hints


def test_what_moves_leave_is_one_list_until_the_node_shows_it():
    hints = left(hint(0), hint(1))
    assert written(hints, node()) == written(hints, node()) == {"n1": ["rs0", "rs1"]}
    assert written(hints, node(hint(0))) == {"n1": ["rs0", "rs1"]}
    assert not written(hints, node(hint(0), hint(1)))
    assert not hints.left


def test_with_it_goes_what_has_ended_or_whose_controller_is_gone():
    gone = msgspec.structs.replace(hint(0), controller_uid="gone")
    assert written(left(hint(2)), node(hint(0), hint(1, 0.0), gone)) == {"n1": ["rs0", "rs2"]}
    assert written(NodeHints(), node(hint(0), gone), node(hint(0), name="n2")) == {"n1": ["rs0"]}


@pytest.mark.parametrize("order", [(60.0, 90.0), (90.0, 60.0)])
def test_of_two_for_one_controller_the_longer_one_lasts(order):
    hints = left(*(hint(0, ttl_s) for ttl_s in order))
    assert not written(hints, node(hint(0, 90.0)))
    assert written(left(hint(0, 90.0)), node(hint(0, 60.0)))


def test_a_hint_that_ended_while_it_could_not_be_written_is_forgotten():
    hints = left(hint(0))
    assert not written(hints, node(), now_s=NOW + 60.0)
    assert not hints.left


def test_what_is_left_on_a_node_that_is_gone_is_forgotten():
    hints = left(hint(0))
    assert not written(hints)
    assert not hints.left


def test_a_full_list_comes_to_rest():
    hints = left(hint(LIMIT), hint(LIMIT + 1))
    now = node(*(hint(number) for number in range(LIMIT)))
    for _ in range(4):
        for call in hints.changes({"n1": now}, [now], CONTROLLERS, NOW):
            kept = json.loads(json.loads(call.body)["metadata"]["annotations"][ANNOTATION_AVOID])
            now = node(*(hint(CONTROLLERS.index(one["controllerUid"])) for one in kept))
    assert len(now.avoid) == LIMIT
    assert not hints.left
