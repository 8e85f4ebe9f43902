"""Pods and Reservations that name different resources: what is compared, and what remains after any number of claims."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationOwner, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.reservations.assignment import Room, assign, fits, from_the_node, larger_than, taken_by
from rescheduler.reservations.split import used_by

GPU = "nvidia.com/gpu"
amounts = st.builds(
    lambda cpu, memory, gpus: Resources(
        cpu_milli=cpu, memory_bytes=memory, scalars=((GPU, gpus),) if gpus is not None else ()
    ),
    st.integers(0, 3000),
    st.integers(0, 3000),
    st.one_of(st.none(), st.integers(0, 3)),
)


def pod(name, requests):
    built = b.snapshot([], [b.pod(name)]).pods
    found = next(iter(built.values()))
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, requests=requests))


def room(template, *, several=False):
    reservation = Reservation(
        name="room",
        template=PodSpec(requests=template),
        owners=tuple(ReservationOwner(object=ObjectRef(name=f"p{n}")) for n in range(4)),
        allocate_once=not several,
        status=ReservationStatus(allocatable=template),
    )
    return Room(reservation=reservation, size=template, open=True)


@given(amounts, amounts)
def test_a_pod_is_compared_by_the_resources_that_the_template_names(template, requests):
    one, held = pod("p0", requests), room(template)
    names_any = any(amount for _, amount in template.items())
    named = [name for name, amount in template.items() if amount] if names_any else ["cpu", "memory", GPU]
    enough = all(requests.amount(name) <= template.amount(name) for name in named)
    assert (larger_than(one, held) == "") == enough
    assert ("room" in assign([one], [held], lambda _: ()).claims) == enough
    assert from_the_node(one, held.reservation) == any(
        amount and name not in named for name, amount in requests.items()
    )


@given(amounts, st.lists(amounts, min_size=1, max_size=4))
def test_several_pods_never_take_more_than_there_is_and_never_below_zero(template, many):
    held = room(template, several=True)
    pods = [pod(f"p{n}", requests) for n, requests in enumerate(many)]
    served = assign(pods, [held], lambda _: ()).claims.get("room", ())
    used = used_by(served, held.reservation)
    assert fits(used, template)
    rest = template - used
    assert all(amount >= 0 for _, amount in rest.items())
    assert all(taken_by(one, held.reservation).amount(GPU) <= template.amount(GPU) for one in served)
