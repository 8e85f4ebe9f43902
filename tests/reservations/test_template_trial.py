"""The trial pod of a template: no default of the namespace of placeholders makes it invalid, and its own faults stay."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sandbox.apiserver.validation import validate_pod_spec
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.reservations.validation import trial_pod

AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu", "gpu"]),
    st.sampled_from(["0", "1", "2", "-1", "much"]),
)


def trial(container):
    template = {"spec": {"containers": [container], "initContainers": [container | {"name": "first"}]}}
    room = Reservation(name="r", status=ReservationStatus(), template_raw=json.dumps(template).encode())
    return json.loads(trial_pod(room))["spec"]


def with_defaults(spec):
    """What a LimitRange makes of it whose default limits are below every request."""
    for one in (*spec["containers"], *spec["initContainers"]):
        limits = one.setdefault("resources", {}).setdefault("limits", {})
        requests = one["resources"].get("requests") or {}
        for name in ("cpu", "memory", "ephemeral-storage"):
            if name not in limits:
                limits[name] = "1m"
                one["resources"]["requests"] = {name: "1m", **requests}
                requests = one["resources"]["requests"]
    return spec


@given(st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS}))
def test_defaults_of_a_limit_range_make_no_template_invalid_and_hide_no_fault(resources):
    container = {"name": "main", "image": "app", "resources": resources}
    asked = {"containers": [container], "initContainers": [container | {"name": "first"}]}
    faults = validate_pod_spec(asked, "spec")
    assert bool(validate_pod_spec(with_defaults(trial(container)), "spec")) == bool(faults)


@pytest.mark.parametrize(
    "container",
    ["main", {"name": "main", "resources": 3}, {"name": "main", "resources": {"requests": [], "limits": 1}}],
)
def test_what_is_no_container_is_sent_as_it_is(container):
    template = json.dumps({"spec": {"containers": [container]}}).encode()
    room = Reservation(name="r", status=ReservationStatus(), template_raw=template)
    assert json.loads(trial_pod(room))["spec"]["containers"] == [container]
