"""PodMetrics as metrics-server writes them: amounts in every form of a quantity, and entries that are no measurement."""

import json

import pytest

from rescheduler.model.decode.usage_metrics import decode_pod_metrics
from rescheduler.model.resources import nano
from rescheduler.model.usage import usage_key


def decoded(*amounts, **changes):
    item = {
        "metadata": {"name": "a", "namespace": "shop"},
        "timestamp": "2026-01-01T00:00:00Z",
        "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": memory}} for cpu, memory in amounts],
    }
    return decode_pod_metrics(memoryview(json.dumps(item | changes).encode()))


@pytest.mark.parametrize(
    "text",
    ["0", "5n", "123456789n", "12u", "250m", "1.5", "3", "2e3", "7Ki", "4096Ki", "12Mi", "1Gi", 2, 0.25],
)
def test_every_form_of_a_quantity_is_read_as_elsewhere(text):
    assert decoded((text, text)) == pytest.approx(
        (usage_key("shop", "a"), 1767225600.0, nano(text) / 1e6, nano(text) / 1e9)
    )


def test_containers_are_added_up_and_of_none_nothing_is_known():
    assert decoded(("100m", "1Mi"), ("50m", "1Mi"))[2:] == (150.0, 2 << 20)
    assert decoded() is None


@pytest.mark.parametrize(
    "amount", ["", "much", "12x", "1xn", "\uff11\uff12n", "\uff11\uff12Ki", "--3n", None, []]
)
def test_what_is_no_amount_is_no_measurement(amount):
    assert decoded((amount, "1Mi")) is None
    assert decoded(("1", amount)) is None


@pytest.mark.parametrize(
    "changes", [{"timestamp": ""}, {"timestamp": "yesterday"}, {"containers": None}, {"metadata": {}}]
)
def test_what_is_incomplete_is_no_measurement(changes):
    assert decoded(("1", "1Mi"), **changes) is None
