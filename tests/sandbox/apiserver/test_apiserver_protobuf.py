"""Protobuf bodies, as ``kubectl create`` sends them; the bytes are built here by hand."""

import pytest

from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.protobuf import decode


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def text(number, value):
    data = value if isinstance(value, bytes) else value.encode()
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field, value):
    return varint(field << 3) + varint(value)


def envelope(api_version, kind, raw):
    return b"k8s\x00" + text(1, text(1, api_version) + text(2, kind)) + text(2, raw)


def metadata(name, namespace=""):
    return text(1, text(1, name) + text(2, "") + text(3, namespace))


def test_a_deployment_keeps_replicas_selector_and_containers():
    labels = text(1, text(1, "app") + text(2, "web"))
    container = text(1, "c") + text(2, "i:1") + text(8, text(2, text(1, "cpu") + text(2, text(1, "100m"))))
    spec = number(1, 0) + text(2, labels) + text(3, text(2, text(2, container)))
    found = decode(envelope("apps/v1", "Deployment", metadata("web") + text(2, spec)))["spec"]
    assert found["replicas"] == 0
    assert found["selector"] == {"matchLabels": {"app": "web"}}
    (read,) = found["template"]["spec"]["containers"]
    assert read == {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m"}}}


@pytest.mark.parametrize(
    ("minimum", "value"), [(number(1, 0) + number(2, 2), 2), (number(1, 1) + text(3, "50%"), "50%")]
)
def test_numbers_or_percents(minimum, value):
    body = envelope("policy/v1", "PodDisruptionBudget", metadata("b") + text(2, text(1, minimum)))
    assert decode(body)["spec"] == {"minAvailable": value}


@pytest.mark.parametrize(("body", "code"), [
    (b"{}", 400),
    (envelope("apps/v1", "Deployment", metadata("web"))[:-3], 400),
    (envelope("v1", "ResourceQuota", metadata("q")), 415),
    (envelope("apps/v1", "Deployment", metadata("web") + text(99, "new")), 415),
])  # fmt: skip
def test_nothing_is_dropped_in_silence(body, code):
    with pytest.raises(StatusError) as refused:
        decode(body)
    assert refused.value.code == code
