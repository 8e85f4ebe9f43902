"""How much may be reserved for the pods of one namespace: who is let in, and what is said to who must wait."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.records import PodAffinityTerm, PodSpec, WeightedPodAffinityTerm
from rescheduler.model.reservation import (
    ControllerRef,
    ObjectRef,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resource_quota import QuotaLimit, ResourceQuota, ScopeRequirement
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSelector
from rescheduler.reservations.quota import MOST_RESERVATIONS, Quota, RoomOfMove, beyond_quota, quota_of
from tests import records

PENDING, AVAILABLE, FAILED = ReservationPhase.PENDING, ReservationPhase.AVAILABLE, ReservationPhase.FAILED
CPU_4 = {"*": Quota(amounts=(("cpu", 4000),))}
replace = msgspec.structs.replace


def room(name, cpu=1000, phase=PENDING, namespace="shop", created=0.0, **fields):
    owner = ReservationOwner(controller=ControllerRef(name="web", namespace=namespace))
    size = Resources(cpu_milli=cpu)
    base = {"template": PodSpec(requests=size), "owners": (owner,), "allocatable": size}
    return records.room(name, phase, created_at_s=created, **base | fields)


def beyond(*rooms, quotas=CPU_4, own=(), moves=None):
    return beyond_quota(rooms, quotas, own, moves or {})


def own(namespace="shop", **limits):
    """A ResourceQuota: resource -> (most, used)."""
    return ResourceQuota(
        namespace=namespace,
        name="own",
        limits=tuple(QuotaLimit(name, most, used) for name, (most, used) in limits.items()),
    )


def of_move(requested, pod_cpu=None):
    return RoomOfMove(requested, None if pod_cpu is None else Resources(cpu_milli=pod_cpu))


def test_the_oldest_go_first_and_who_does_not_fit_lets_smaller_ones_pass():
    rooms = [room("a", 3000, created=1.0), room("b", 2000, created=2.0), room("c", 1000, created=3.0)]
    assert beyond(*rooms) == {"b": "namespace shop may have cpu 4 reserved and has 3; this asks for 2 more"}


def test_what_is_held_counts_before_what_is_older_and_is_never_taken_back():
    held = [room("x", 3000, AVAILABLE, created=9.0), room("y", 3000, AVAILABLE, created=9.0)]
    assert list(beyond(room("a", created=1.0), *held)) == ["a"]
    assert list(beyond(room("a", 0, created=1.0), *held)) == [], "it asks for nothing that is limited"


def test_their_number_is_limited():
    quotas = {"*": Quota(reservations=1)}
    assert beyond(room("a"), room("b"), quotas=quotas) == {
        "b": "namespace shop may have 1 Reservations, and has 1"
    }
    assert list(beyond(room("a"), quotas={"shop": Quota(reservations=0)})) == ["a"]


@pytest.mark.parametrize("other", [
    room("z", 4000, FAILED),
    room("z", 4000, AVAILABLE, deleting=True),
    room("z", 4000, AVAILABLE, namespace="another"),
    room("z", 4000, AVAILABLE, namespace=""),
    room("move", 4000, AVAILABLE),
    room("evicted", 4000, AVAILABLE),
])  # fmt: skip
def test_what_does_not_count(other):
    moves = {"move": of_move(False, 4000), "evicted": of_move(False)}
    assert beyond(room("a"), other, moves=moves) == {}


def test_a_move_that_people_ask_for_counts_like_any_other_room():
    move = room("move", 4000, AVAILABLE)
    assert list(beyond(room("a"), move, moves={"move": of_move(True, 4000)})) == ["a"]
    assert list(beyond(room("move", 5000), moves={"move": of_move(True, 5000)})) == ["move"]
    assert list(
        beyond(
            room("a", 0),
            room("move", 0, AVAILABLE),
            quotas={"*": Quota(reservations=1)},
            moves={"move": of_move(True, 0)},
        )
    ) == ["a"]


def test_what_a_planned_move_takes_beyond_its_pod_counts():
    small = {"move": of_move(False, 1)}
    assert list(beyond(room("move", 96_000), moves=small)) == ["move"]
    assert list(beyond(room("a", 1002), room("move", 3000, AVAILABLE), moves=small)) == ["a"]
    assert list(beyond(room("a", 1001), room("move", 3000, AVAILABLE), moves=small)) == []


A, B = "team-a", "team-b"


def named(thing="", controller=""):
    """An owner that names a namespace here, there, or in both places."""
    return ReservationOwner(
        object=ObjectRef(namespace=thing) if thing else None,
        controller=ControllerRef(name="web", namespace=controller),
    )


@pytest.mark.parametrize("owners", [
    (named(controller=A), named(controller=B)),
    (named(A, B), named(B, A)),
    (named(A, B),),
    (named(B, A),),
    (named(A), named(controller=""), named(controller=B)),
])  # fmt: skip
def test_a_room_counts_in_every_namespace_that_an_owner_names(owners):
    big = room("big", 3000, AVAILABLE, owners=owners)
    for home in (A, B):
        assert list(beyond(big, room("more", 2000, namespace=home))) == ["more"]
    quotas = {B: Quota(amounts=(("cpu", 1000),))}
    assert list(beyond(room("big", 3000, owners=owners), quotas=quotas)) == ["big"]


def test_their_number_is_limited_without_a_configuration():
    rooms = [room(f"r{i:04}", 0) for i in range(MOST_RESERVATIONS + 2)]
    assert sorted(beyond(*rooms, quotas={})) == [f"r{MOST_RESERVATIONS:04}", f"r{MOST_RESERVATIONS + 1:04}"]
    assert beyond(*rooms, quotas={"shop": Quota(reservations=9999)}) == {}


# The namespace's own ResourceQuotas


def test_rooms_are_for_pods_that_the_own_quota_lets_come():
    rooms = [room("a", 1000, created=1.0), room("b", 2000, created=2.0), room("c", 1000, created=3.0)]
    assert beyond(*rooms, quotas={}, own=[own(cpu=(4000, 2000))]) == {
        "b": "ResourceQuota own of namespace shop allows cpu 4: 2 are used and 1 reserved; this asks for 2 more"
    }
    assert beyond(*rooms, quotas={}, own=[own("another", cpu=(0, 0))]) == {}


def test_each_room_takes_one_of_the_pods_of_the_own_quota():
    assert list(beyond(room("a"), room("b"), quotas={}, own=[own(pods=(3, 2))])) == ["b"]


def test_a_claimed_room_is_in_what_the_own_quota_counts_already():
    status = ReservationStatus(phase=AVAILABLE, current_owners=(ObjectRef("shop", "web-1", "u"),))
    claimed = room("held", 2000, status=status)
    assert beyond(claimed, room("a", 2000), quotas={}, own=[own(cpu=(4000, 2000), pods=(2, 1))]) == {}


@pytest.mark.parametrize("requested", [True, False])
def test_a_move_takes_of_the_own_quota_what_its_replacement_needs_beyond_the_pod(requested):
    full = [own(cpu=(4000, 4000), pods=(4, 4))]
    same, grown = room("move", 2000), room("move", 96_000)
    assert beyond(same, quotas={}, own=full, moves={"move": of_move(requested, 2000)}) == {}
    assert list(beyond(grown, quotas={}, own=full, moves={"move": of_move(requested, 1)})) == ["move"]
    held = room("move", 2000, AVAILABLE)
    freed = [own(cpu=(4000, 2000))]
    assert list(beyond(held, room("a"), quotas={}, own=freed, moves={"move": of_move(requested)})) == ["a"], (
        "what the evicted pod left is for its replacement"
    )


def test_a_room_for_several_counts_with_what_is_left():
    several = room("s", 4000, AVAILABLE, allocate_once=False)
    used = replace(several.status, allocated=Resources(cpu_milli=3000))
    assert list(beyond(room("a", 3000), several)) == ["a"]
    assert list(beyond(room("a", 3000), replace(several, status=used))) == []


def test_limits_of_a_namespace_go_before_those_of_all():
    quotas = {
        "*": Quota(reservations=9, amounts=(("cpu", 1000), ("memory", 5))),
        "shop": Quota(amounts=(("cpu", 2000),)),
    }
    assert quota_of("shop", quotas) == Quota(reservations=9, amounts=(("cpu", 2000), ("memory", 5)))
    assert quota_of("else", quotas) == quotas["*"]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 3)), max_size=12))
def test_what_is_let_in_never_exceeds_the_share_unless_it_was_held_before(drawn):
    rooms = [
        room(f"r{i}", cpu * 1000, AVAILABLE if held else PENDING, created=float(age))
        for i, (cpu, held, age) in enumerate(drawn)
    ]
    waiting = beyond(*rooms)
    held = sum(r.template.requests.cpu_milli for r in rooms if r.status.phase is AVAILABLE)
    let_in = sum(r.template.requests.cpu_milli for r in rooms if r.name not in waiting)
    assert let_in <= max(4000, held)
    assert all(r.status.phase is PENDING for r in rooms if r.name in waiting)


# Their scopes


def scoped(scope, operator="Exists", values=(), **limits):
    return msgspec.structs.replace(
        own(**limits), selected_scopes=(ScopeRequirement(scope, operator, tuple(values)),)
    )


ONE = Resources(cpu_milli=1000)
PLAIN = PodSpec(requests=ONE)
HIGH = PodSpec(requests=ONE, priority_class="high")
DEADLINE = PodSpec(requests=ONE, deadline_s=60)
NOTHING = PodSpec()
ELSEWHERE = PodSpec(requests=ONE, pod_anti_affinity=(PodAffinityTerm(None, "zone", ("other",)),))
ANYWHERE = PodSpec(
    requests=ONE,
    pod_affinity_preferred=(WeightedPodAffinityTerm(1, PodAffinityTerm(None, "zone", (), LabelSelector())),),
)
BESIDE = PodSpec(requests=ONE, pod_affinity=(PodAffinityTerm(None, "zone"),))
PODS = [PLAIN, HIGH, DEADLINE, NOTHING, ELSEWHERE, ANYWHERE, BESIDE]


@pytest.mark.parametrize(("quota", "counted"), [
    (own(), PODS),
    (scoped("Terminating"), [DEADLINE]),
    (scoped("NotTerminating"), [PLAIN, HIGH, NOTHING, ELSEWHERE, ANYWHERE, BESIDE]),
    (scoped("BestEffort"), [NOTHING]),
    (scoped("NotBestEffort"), [PLAIN, HIGH, DEADLINE, ELSEWHERE, ANYWHERE, BESIDE]),
    (scoped("CrossNamespacePodAffinity"), [ELSEWHERE, ANYWHERE]),
    (scoped("PriorityClass"), [HIGH]),
    (scoped("PriorityClass", "In", ["high"]), [HIGH]),
    (scoped("PriorityClass", "In", ["low"]), []),
    (scoped("PriorityClass", "NotIn", ["high"]), [p for p in PODS if p is not HIGH]),
    (scoped("PriorityClass", "DoesNotExist"), [p for p in PODS if p is not HIGH]),
    (scoped("VolumeAttributesClass"), []),
])  # fmt: skip
def test_which_pods_a_quota_with_scopes_counts(quota, counted):
    assert [pod for pod in PODS if quota.counts(pod, "")] == counted


def test_a_pod_without_a_priority_class_gets_the_default_one():
    assert scoped("PriorityClass", "In", ["usual"]).counts(PLAIN, "usual")
    assert not scoped("PriorityClass", "DoesNotExist").counts(PLAIN, "usual")


def test_each_quota_counts_the_rooms_of_its_scopes_alone():
    quota = scoped("PriorityClass", "In", ["high"], cpu=(1000, 0))
    wanted = [room("a", template=HIGH), room("b", template=PLAIN), room("c", template=HIGH, created=1.0)]
    assert list(beyond(*wanted, quotas={}, own=[quota])) == ["c"]


def test_the_scopes_of_a_move_are_those_of_its_pod():
    """The template of its room has no PriorityClass."""
    quota = scoped("PriorityClass", "In", ["high"], cpu=(500, 0))
    grown = {"move": RoomOfMove(True, Resources(cpu_milli=100), HIGH)}
    assert list(beyond(room("move"), quotas={}, own=[quota], moves=grown)) == ["move"]
    plain = {"move": RoomOfMove(True, Resources(cpu_milli=100), PLAIN)}
    assert list(beyond(room("move"), quotas={}, own=[quota], moves=plain)) == []
