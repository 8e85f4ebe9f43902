"""What the policy reservation-limits counts of a template is what kube-scheduler counts of the pod, and so what is held."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import builders
from harness.controlplane import manifests
from kube_sandbox.apiserver.cel import compiled
from rescheduler.model.kinds import Kind

NAME = "reservation-limits.rescheduler.dev"
OWNERS = [{"object": {"namespace": "shop"}, "labelSelector": {"matchLabels": {"app": "web"}}}]
RESOURCES = ("cpu", "memory", "example.com/gpu", "hugepages-2Mi")


@pytest.fixture(scope="module")
def policy():
    (found,) = (
        o
        for o in manifests.load()
        if o["kind"] == "ValidatingAdmissionPolicy" and o["metadata"]["name"] == NAME
    )
    return found["spec"]


def values(policy, template, limits):
    """All variables of the policy for this template, and what its validations say."""
    given = {
        "object": {"spec": {"owners": OWNERS, "template": {"spec": template}}},
        "params": {"data": limits},
        "variables": {},
    }
    for variable in policy["variables"]:
        given["variables"][variable["name"]] = compiled(variable["expression"]).evaluate(given)
    refused = [v for v in policy["validations"] if compiled(v["expression"]).evaluate(given) is not True]
    words = [
        compiled(v["messageExpression"]).evaluate(given) if "messageExpression" in v else v["message"]
        for v in refused
    ]
    return given["variables"], words


def refused(policy, template, **limits):
    return values(policy, template, {name.replace("_", "."): limit for name, limit in limits.items()})[1]


def container(requests=None, limits=None, **more):
    resources = {k: v for k, v in (("requests", requests), ("limits", limits)) if v is not None}
    return {"name": "c", **({"resources": resources} if resources else {}), **more}


TEN = {"cpu": "10"}


@pytest.mark.parametrize("template", [
    {"containers": [container(TEN)]},
    {"containers": [container({"cpu": 10})]},
    {"containers": [container(limits=TEN)]},
    {"containers": [container({"memory": "1Mi"}, TEN)]},
    {"containers": [container()], "resources": {"requests": TEN}},
    {"containers": [container()], "resources": {"limits": TEN}},
    {"containers": [container({"cpu": "1m"})], "resources": {"requests": TEN}},
    {"containers": [container()], "overhead": TEN},
    {"containers": [container()], "initContainers": [container(TEN)]},
    {"containers": [container()], "initContainers": [container(TEN, restartPolicy="Always")]},
    {"containers": [container({"cpu": "-90"})], "initContainers": [container({"cpu": "100"}, restartPolicy="Always")]},
    {"containers": [container({"cpu": "1"}) for _ in range(33)]},
    {"containers": [container()], "initContainers": [container({"cpu": "5"}, restartPolicy="Always"), container({"cpu": "5"})]},
])  # fmt: skip
def test_nothing_that_holds_ten_cpus_passes_a_limit_of_nine(policy, template):
    assert refused(policy, template, shop_cpu="9")
    assert refused(policy, template, default_cpu="9")


def test_the_limit_of_the_namespace_goes_before_the_default_and_is_named(policy):
    template = {"containers": [container(TEN)]}
    assert refused(policy, template, shop_cpu="10", default_cpu="9") == []
    assert refused(policy, template, other_cpu="9") == []
    assert refused(policy, template, shop_cpu="9") == [
        "one Reservation for namespace shop may ask for at most cpu 9"
    ]


def test_extended_resources_have_limits_too(policy):
    template = {"containers": [container(limits={"example.com/gpu": "8"})]}
    assert values(policy, template, {"default.example.com__gpu": "4"})[1] == [
        "one Reservation for namespace shop may ask for at most example.com/gpu 4"
    ]


def test_tenths_are_added_exactly(policy):
    template = {"containers": [container({"cpu": "100m"}), container({"cpu": "200m"})]}
    assert refused(policy, template, shop_cpu="300m") == []
    assert refused(policy, template, shop_cpu="299m")


amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 9).map(str), max_size=3)
maybe = st.none() | amounts
ordinary = st.builds(container, maybe, maybe)
initial = st.builds(
    lambda requests, limits, sidecar: container(requests, limits, **({"restartPolicy": "Always"} if sidecar else {})),
    maybe, maybe, st.booleans(),
)  # fmt: skip
templates = st.fixed_dictionaries({"containers": st.lists(ordinary, min_size=1, max_size=3)}, optional={
    "initContainers": st.lists(initial, max_size=4),
    "overhead": amounts,
    "resources": st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts}),
})  # fmt: skip


@given(template=templates)
@settings(max_examples=300, deadline=None)
def test_it_counts_as_the_scheduler_does(policy, template):
    limits = {f"shop.{name.replace('/', '__')}": "1" for name in RESOURCES}
    variables, _ = values(policy, template, limits)
    room = builders.object_of(
        Kind.RESERVATION, "r", spec={"owners": OWNERS, "template": {"spec": template}}
    ).build()
    held = dict(room.template.requests.items())
    for name, asked in zip(variables["resources"], variables["asked"], strict=True):
        exact = held.get(name, 0) * (1 if name == "cpu" else 1000)
        # A pod's limit counts as its request only where no container names the resource; one that asks for 0 names it.
        assert asked == exact or (asked > exact and "resources" in template)
