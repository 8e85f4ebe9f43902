"""Requests and limits of placeholders and probes: whatever a template asks for, a namespace that demands limits takes them, and no more is held."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kube_sandbox.apiserver.defaults import default_pod_spec, qos_class
from kube_sandbox.apiserver.validation import validate_pod_spec
from rescheduler.kube.gate import probe_pod
from rescheduler.model.records import ObjectKey, OwnerRef
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.model.resources import Resources, nano, placeholder_resources, resources_of
from rescheduler.reservations.scheduler_probe import ask_scheduler

COUNTED = ("cpu", "memory", "ephemeral-storage")
BYTES = st.just(0) | st.integers(1, 1 << 20) | st.sampled_from([64 << 20, 1 << 30]) | st.integers(0, 1 << 48)
ASKED = st.builds(
    Resources,
    cpu_milli=st.sampled_from([0, 1, 99, 100, 1000, 4000]) | st.integers(0, 1 << 48),
    memory_bytes=BYTES,
    ephemeral_bytes=BYTES,
    scalars=st.lists(
        st.tuples(st.sampled_from(["example.com/gpu", "hugepages-2Mi"]), st.integers(0, 8)),
        unique_by=lambda item: item[0],
    ).map(lambda items: tuple(sorted(items))),
)


def pod_spec(resources):
    spec = {"containers": [{"name": "c", "image": "pause", "resources": resources}]}
    default_pod_spec(spec)
    return spec


@given(ASKED)
@example(Resources())
@example(Resources(cpu_milli=2000, memory_bytes=1 << 30))
@example(Resources(scalars=(("example.com/gpu", 0),)))
def test_each_amount_has_a_request_of_what_was_asked_and_a_limit_that_the_api_server_takes(asked):
    resources = placeholder_resources(asked)
    requests, limits = resources["requests"], resources["limits"]
    assert requests.keys() == limits.keys() >= set(COUNTED)
    spec = pod_spec(resources)
    assert not validate_pod_spec(spec, "spec")
    stored = spec["containers"][0]["resources"]["requests"]
    assert resources_of({name: nano(amount) for name, amount in stored.items()}) == asked


@given(ASKED)
def test_no_kubelet_gives_it_cpus_or_memory_of_its_own(asked):
    assert qos_class(pod_spec(placeholder_resources(asked))) == "Burstable"


@given(ASKED)
def test_a_container_runtime_starts_it_within_its_limits(asked):
    limits = {name: nano(amount) for name, amount in placeholder_resources(asked)["limits"].items()}
    assert resources_of(limits).cpu_milli >= 100
    assert min(resources_of(limits).memory_bytes, resources_of(limits).ephemeral_bytes) >= 64 << 20


@pytest.mark.parametrize(("cpu", "memory"), [(100, 64 << 20), (2000, 8 << 30), (64_000, 256 << 30)])
def test_a_limit_is_next_to_the_request_so_that_a_ratio_of_limits_to_requests_holds(cpu, memory):
    limits = placeholder_resources(Resources(cpu_milli=cpu, memory_bytes=memory))["limits"]
    assert resources_of({name: nano(amount) for name, amount in limits.items()}).cpu_milli == cpu + 1
    assert resources_of({name: nano(amount) for name, amount in limits.items()}).memory_bytes == memory


def test_probes_have_limits_too_and_weigh_next_to_nothing():
    room = Reservation(name="r", uid="u", status=ReservationStatus())
    of_scheduler = ask_scheduler(ObjectKey("rescheduler", "p"), "other", "i", room).body
    of_gate = probe_pod(OwnerRef("apps/v1", "ReplicaSet", "web", "rs"), "rescheduler", {})
    for body in (json.loads(of_scheduler), of_gate):
        (container,) = body["spec"]["containers"]
        amounts = {"cpu": "1m", "memory": "1Mi", "ephemeral-storage": "1Mi"}
        assert container["resources"] == {"requests": amounts, "limits": amounts}
