"""Single steps of a ReservationWindow: what was placed, clocks that jump, rooms that are late."""

import msgspec
import pytest

from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.own_objects import Condition
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import ObjectRef, ReservationOwner, ReservationPhase, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import ReservationWindow, WindowPhase, WindowStatus
from rescheduler.model.selectors import LabelSelector, Operator, Requirement
from rescheduler.room_sets.places import Outlook
from rescheduler.room_sets.windows import ObservedWindow, part_of, step

START_S = 1_790_035_200.0
OWNERS = (ReservationOwner(label_selector=LabelSelector((Requirement("a", Operator.IN, ("b",)),))),)


def window(**more):
    spec = {"cron": "0 0 * * *", "duration_s": 3600.0, "pods": 3, "start_reserve_ago_s": 7200.0, **more}
    spec.setdefault("resources", Resources(cpu_milli=3000))
    spec.setdefault("status", WindowStatus())
    return ReservationWindow(name="w", uid="u", generation=1, owners=OWNERS, **spec)


def after(seen, decided):
    """As the API server has it after that step."""
    status = decided.status.status if decided.status is not None else seen.status
    return msgspec.structs.replace(seen, status=status)


def phase(seen, now_s, **more):
    return step(ObservedWindow(window=seen, rooms=(), **more), now_s)


@pytest.mark.parametrize(
    ("at_s", "expected"),
    [
        (START_S - 7201, WindowPhase.WAITING), (START_S - 7200, WindowPhase.GATHERING), (START_S - 1, WindowPhase.GATHERING),
        (START_S, WindowPhase.OPEN), (START_S + 3599, WindowPhase.OPEN), (START_S + 3600, WindowPhase.WAITING),
    ],
)  # fmt: skip
def test_the_phase_follows_from_the_time(at_s, expected):
    assert phase(window(), at_s).status.status.phase is expected


def test_pods_that_were_placed_and_are_gone_count_on():
    seen = window()
    for placed in ({"a"}, {"b"}, set()):
        seen = after(seen, phase(seen, START_S, placed=frozenset(placed)))
    assert (seen.status.placed_pods, seen.status.wanted) == (("a", "b"), 1)
    seen = after(seen, phase(seen, START_S + 5, placed=frozenset({"c"})))
    assert seen.status.phase is WindowPhase.FILLED
    seen = after(seen, phase(seen, START_S + 3600))
    assert seen.status.placed_pods == ()


def test_a_clock_that_is_set_back_a_little_ends_nothing():
    seen = after(window(), phase(window(), START_S - 7195))
    assert seen.status.phase is WindowPhase.GATHERING
    seen = after(seen, phase(seen, START_S - 7200 - 590))
    assert seen.status.phase is WindowPhase.GATHERING
    seen = after(seen, phase(seen, START_S - 7200 - 700))
    assert seen.status.phase is WindowPhase.WAITING
    assert not phase(seen, START_S - 7200 - 600).create


def test_a_clock_that_jumps_ahead_over_a_window_is_told():
    seen = after(window(), phase(window(), START_S - 9000))
    found = phase(seen, START_S + 4000)
    assert found.event.reason == "Missed"
    assert found.status.status.start_s == START_S + 86_400


def test_a_sum_in_parts_is_never_less_than_the_sum():
    whole = Resources(cpu_milli=1000, memory_bytes=9, pods=4, scalars=(("example.com/gpu", 4),))
    assert part_of(whole, 3) == Resources(cpu_milli=334, memory_bytes=3, scalars=(("example.com/gpu", 2),))


def test_what_is_foreseen_nowhere_is_gathered_wherever_it_becomes_free():
    found = phase(window(), START_S - 100, outlooks=lambda _room, _missing: (Outlook("n1", rooms=2),))
    templates = [msgspec.json.decode(order.body)["spec"]["template"]["spec"] for order in found.create]
    cpus = [t["containers"][0]["resources"]["requests"]["cpu"] for t in templates]
    assert [(t.get("nodeName"), cpu) for t, cpu in zip(templates, cpus, strict=True)] == [
        ("n1", "2"),
        (None, "1"),
    ]


def test_an_unreadable_window_takes_no_step():
    assert phase(window(unreadable="spec.duration: no"), START_S) == step(
        ObservedWindow(window=window(deleting=True), rooms=()), START_S
    )


def test_it_is_looked_again_only_when_it_is_time():
    asked = []

    def outlooks(_room, missing):
        asked.append(missing)
        return [Outlook("n1", rooms=3)] if missing else None

    first = phase(window(), START_S - 100, outlooks=outlooks)
    assert (asked, len(first.create)) == ([True], 1)


def room_of(order, number, reason="", phase=ReservationPhase.PENDING):
    """The Reservation that an order makes, a moment later."""
    body = msgspec.json.decode(order.body)
    body["metadata"] |= {"uid": f"r{number}", "creationTimestamp": "2026-09-21T13:00:00Z"}
    room = Decoder().record(Kind.RESERVATION, msgspec.json.encode(body))
    told = (Condition("Scheduled", "False", reason),) if reason else ()
    return msgspec.structs.replace(room, status=ReservationStatus(phase=phase, conditions=told))


def test_rooms_that_are_only_waited_on_do_not_wait_for_a_share():
    likely = [Outlook(f"n{number}", lacks=500, hopes=True) for number in range(12)]
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    seen = window(
        pods=2, resources=Resources(), template_raw=msgspec.json.encode(template), template=PodSpec(requests=Resources(cpu_milli=1000))
    )  # fmt: skip
    orders = phase(seen, START_S - 100, outlooks=lambda *_: likely).create
    assert len(orders) == 8

    def with_share_for(count):
        rooms = [
            room_of(order, n, "" if n < count else "BeyondShare", ReservationPhase.WAITING if n < count else ReservationPhase.PENDING)
            for n, order in enumerate(orders)
        ]  # fmt: skip
        return step(ObservedWindow(window=seen, rooms=rooms, outlooks=lambda *_: likely), START_S - 90)

    for count, stay in ((3, 4), (2, 3), (1, 2), (0, 2)):
        found = with_share_for(count)
        assert (len(orders) - len(found.delete), found.create) == (stay, ()), count


def test_owners_that_landed_in_a_full_room_count_although_they_are_older_than_the_window():
    seen = window(pods=2, resources=Resources(cpu_milli=2000))
    one = phase(seen, START_S - 100, outlooks=lambda _room, _missing: (Outlook("n1", rooms=2),))
    (order,) = one.create
    seen, room = after(seen, one), room_of(order, 1)
    status = ReservationStatus(
        phase=ReservationPhase.AVAILABLE,
        node_name="n1",
        allocatable=Resources(cpu_milli=2000),
        allocated=Resources(cpu_milli=2000),
        current_owners=(ObjectRef("night", "a", "a"), ObjectRef("night", "b", "b")),
    )

    def placed(reason):
        told = (Condition("Ready", "True", reason),)
        full = msgspec.structs.replace(room, status=msgspec.structs.replace(status, conditions=told))
        found = step(ObservedWindow(window=seen, rooms=(full,)), START_S)
        return after(seen, found).status.placed_pods

    assert placed("Claimed") == ()
    assert placed("Available") == ("a", "b")


def test_a_pod_on_its_way_into_a_shared_room_takes_one_of_the_rooms():
    seen = window(pods=2, resources=Resources(cpu_milli=2000))
    one = phase(seen, START_S - 100, outlooks=lambda _room, _missing: (Outlook("n1", rooms=2),))
    (order,) = one.create
    seen = after(seen, one)
    status = ReservationStatus(
        phase=ReservationPhase.AVAILABLE,
        node_name="n1",
        allocatable=Resources(cpu_milli=2000),
        allocated=Resources(cpu_milli=1000),
        current_owners=(ObjectRef("night", "a", "a"),),
        conditions=(Condition("Ready", "True", "Claimed"),),
    )
    room = msgspec.structs.replace(room_of(order, 1), status=status)
    found = step(
        ObservedWindow(window=seen, rooms=(room,), outlooks=lambda *_: (Outlook("n2", rooms=2),)), START_S
    )
    assert (found.create, found.delete, after(seen, found).status.gathered) == ((), (), 2)


@pytest.mark.parametrize("placed", [frozenset(), frozenset({"a"})], ids=["not seen yet", "bound"])
def test_a_pod_that_is_bound_before_its_room_has_ended_gives_no_other_room_back(placed):
    """The pod counts as placed as soon as it is bound; its Reservation says so when the pod runs."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    requests = PodSpec(requests=Resources(cpu_milli=1000))
    raw = msgspec.json.encode(template)
    seen = window(pods=2, resources=Resources(), template_raw=raw, template=requests)
    one = phase(seen, START_S - 100, outlooks=lambda *_: (Outlook("n1", rooms=2),))
    available = ReservationStatus(phase=ReservationPhase.AVAILABLE, node_name="n1")
    claimed = msgspec.structs.replace(
        available,
        current_owners=(ObjectRef("night", "a", "a"),),
        conditions=(Condition("Ready", "True", "Claimed"),),
    )
    rooms = [
        msgspec.structs.replace(room_of(order, number), status=status)
        for number, (order, status) in enumerate(zip(one.create, (claimed, available), strict=True))
    ]
    found = step(ObservedWindow(window=after(seen, one), rooms=rooms, placed=placed), START_S)
    assert (found.create, found.delete) == ((), ())
    assert after(seen, found).status.gathered == 2 - len(placed)
