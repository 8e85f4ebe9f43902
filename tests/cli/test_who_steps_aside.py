"""``reserve create --make-room --dry-run``: what is foretold of Reservations that do not exist yet."""

from rescheduler.cli.reserve_checks import NO_POLICY, foretold
from rescheduler.configuration.document import parse_configuration
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationOwner, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.testing import builders as b

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"


def wanted(cpu):
    owner = ReservationOwner(object=ObjectRef("shop", "big", ""))
    template = PodSpec(requests=Resources(cpu_milli=cpu))
    return Reservation(
        name="r", template=template, owners=(owner,), make_room=True, status=ReservationStatus()
    )


def said(cpu, policies="[{name: PendingPods, after: 10m}]"):
    owner = b.replicaset("a").cpu("1").replicas(1)
    snapshot = b.snapshot(b.node("n1").cpu("2"), b.node("n2").cpu("1"), owner, owner.pod("a-1").on("n1"))
    configuration = parse_configuration(f"{HEAD}policies: {policies}\n", "test")
    return foretold(snapshot, configuration, {"r": wanted(cpu)})


def test_who_would_step_aside():
    assert said(2000) == ["r: on node/n1, once these have stepped aside: default/a-1 (to n2)"]


def test_nobody_would():
    assert said(1000) == ["r: fits, nobody would step aside"]
    (line,) = said(3000)
    assert line.startswith("r: fits nowhere: no node that would take it is large enough")
    assert said(2000, "[]") == [NO_POLICY]
