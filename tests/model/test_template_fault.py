"""What is said of a pod template that cannot be read: the field, the reason and the remedy."""

import msgspec
import pytest

from rescheduler.model.bounds import OVERSIZED_TEMPLATE
from rescheduler.model.decode.template_fault import template_fault

ONE = [{"name": "main"}]


def requests(**amounts):
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": amounts}}]}}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (requests(cpu="-1"), "spec.template.spec.containers[0].resources.requests.cpu: quantity '-1' is negative ("),
        (requests(memory="1 GB"), "spec.template.spec.containers[0].resources.requests.memory: quantity '1 GB' is no"),
        (requests(cpu=True), "spec.template.spec.containers[0].resources.requests[...]: Expected `int | float | str"),
        ({"spec": {"containers": ONE, "overhead": {"cpu": "x"}}}, "spec.template.spec.overhead.cpu: quantity 'x'"),
        ({"spec": {"containers": ONE, "volumes": "none"}}, "spec.template.spec.volumes: Expected `array | null`"),
        ({"spec": {"containers": ONE, "tolerations": [{"key": 3}]}}, "spec.template.spec.tolerations[0].key: "),
        ({"spec": {}}, "spec.template.spec.containers is empty ("),
        ({"spec": None}, "spec.template.spec is missing (give the containers"),
        ({}, "spec.template is missing (give the containers"),
        ([], "spec.template: Expected `object`, got `array` (see kubectl explain podtemplate.template)"),
        ({"metadata": {"labels": 3}}, "spec.template.metadata.labels: Expected `object`, got `int` (see kubectl "),
    ],
)  # fmt: skip
def test_it_names_field_reason_and_remedy(template, words):
    told = template_fault(msgspec.json.encode(template))
    assert told.startswith(words)
    assert told.endswith(")")


def test_a_template_that_is_too_large_is_told_what_to_leave_out():
    assert "larger than 64 KiB (leave out" in template_fault(OVERSIZED_TEMPLATE)
