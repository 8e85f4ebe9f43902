"""Where our own rules preallocate room, and when they say that it is there."""

from rescheduler.coordination.placement import Placement
from rescheduler.model import names
from rescheduler.model.records import Node, OwnerRef, PodSpec
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet, NodeSelector, NodeSelectorTerm, Operator, Requirement
from rescheduler.model.snapshot import Snapshot
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import Profile
from tests import records
from tests.records import pod_record


def node(name, cpu):
    resources = Resources(cpu_milli=cpu, memory_bytes=10**12, pods=110)
    return Node(name=name, uid=name, labels=LabelSet({names.HOSTNAME: name}), allocatable=resources)


def pod(name, cpu, *, on="", **fields):
    spec = PodSpec(requests=Resources(cpu_milli=cpu))
    return pod_record(
        namespace="default", name=name, uid=name, node=on, **{"spec": spec, "held": spec.requests, **fields}
    )


def preallocation(name, cpu, on, created=0.0):
    pin = Requirement("metadata.name", Operator.IN, (on,))
    spec = PodSpec(
        requests=Resources(cpu_milli=cpu),
        gates=(names.GATE_ROOM,),
        priority=1_000_000_000,
        node_affinity=NodeSelector((NodeSelectorTerm(fields=(pin,)),)),
    )
    owner = OwnerRef(names.API_VERSION, "Reservation", name, name)
    return pod(name, cpu, spec=spec, nominated_node=on, controller=owner, created_at_s=created)


def begin(nodes, *pods, profile=None):
    placement = Placement(namespace="rescheduler", profile=profile)
    placement.begin(
        Replacements(
            Snapshot(taken_at_s=0.0, nodes={n.name: n for n in nodes}, pods={p.key: p for p in pods})
        )
    )
    return placement


def reservation(cpu, on="", **scalars):
    template = PodSpec(requests=Resources(cpu_milli=cpu, scalars=tuple(scalars.items())))
    return records.room(template=template, template_node=on, pre_allocation=True)


def test_the_node_that_lacks_least_is_preallocated_and_preallocations_spread():
    nodes = [node("full", 4000), node("fuller", 4000), node("small", 1000)]
    pods = [pod("a", 3500, on="full"), pod("b", 4000, on="fuller"), pod("c", 900, on="small")]
    assert begin(nodes, *pods).for_reservation(reservation(2000)).node == "full"
    taken = preallocation("p", 2000, "full")
    assert begin(nodes, *pods, taken).for_reservation(reservation(2000)).node == "fuller"


def test_a_free_node_goes_before_a_preallocation():
    nodes = [node("full", 4000), node("free", 4000)]
    assert begin(nodes, pod("a", 3500, on="full")).for_reservation(reservation(2000)).node == "free"


def test_a_named_node_is_preallocated_only_if_it_could_ever_hold_the_room():
    nodes = [node("full", 4000), node("small", 1000)]
    placement = begin(nodes, pod("a", 4000, on="full"))
    assert placement.for_reservation(reservation(2000, "full")).node == "full"
    refused = placement.for_reservation(reservation(2000, "small"))
    assert (refused.node, "large enough" in refused.message) == ("", True)
    assert "elsewhere" in placement.for_reservation(reservation(2000, "elsewhere")).message


def test_room_that_only_a_daemon_set_could_leave_is_never_waited_for():
    nodes = [node("large", 4000), node("small", 3000)]
    daemon = OwnerRef("apps/v1", "DaemonSet", "agent", "agent")
    agents = [pod(f"agent-{n.name}", 1000, on=n.name, controller=daemon) for n in nodes]
    busy = [pod("a", 3000, on="large"), pod("b", 1900, on="small")]
    assert begin(nodes, *agents, *busy).for_reservation(reservation(2500)).node == "large"
    refused = begin(nodes, *agents, *busy).for_reservation(reservation(3500))
    assert refused.message == "no node is large enough for it beside the pods that never leave"
    named = begin(nodes, *agents, *busy).for_reservation(reservation(2500, "small"))
    assert (named.node, "small" in named.message) == ("", True)


def test_what_the_scheduler_ignores_is_not_asked_of_a_node():
    wanted = reservation(2000, **{"license.example/seat": 1})
    nodes, old = [node("full", 4000)], pod("a", 4000, on="full")
    assert "large enough" in begin(nodes, old).for_reservation(wanted).message
    ignoring = Profile(ignored_resource_groups=frozenset({"license.example"}))
    assert begin(nodes, old, profile=ignoring).for_reservation(wanted).node == "full"


def test_room_is_there_when_all_of_it_is_and_others_nominations_count():
    one, two = preallocation("one", 2000, "n", created=1.0), preallocation("two", 2000, "n", created=2.0)
    nodes, old = [node("n", 4000)], pod("old", 1000, on="n")
    assert not begin(nodes, old, pod("more", 1500, on="n"), one).has_room(one, "n", ())
    assert begin(nodes, old, one).has_room(one, "n", ())
    placement = begin(nodes, old, one, two)
    assert not placement.has_room(one, "n", ())
    assert placement.has_room(one, "n", (two,))
    assert not placement.has_room(two, "n", ())
