"""The attack on etcd by gate keys, on the real control plane: what one author can have written, in bytes.

Two Reservations with 32 owners of 64 long label values each once filled etcd: one patch for each key of a ConfigMap of a
megabyte. Now the API server refuses them, the largest that it takes have few keys, and their keys are one write.
"""

from __future__ import annotations

import pytest
from reserving import phase

from harness import documents
from harness.controlplane.controllers import running
from harness.controlplane.world import PATIENCE_S, RESERVATIONS
from rescheduler.coordination.key_stores import MOST_HOME_BYTES
from rescheduler.kube.transport import Request, Response, Transport
from rescheduler.model.names import GATE_CONFIG_MAP

pytestmark = [pytest.mark.realcluster, pytest.mark.usefixtures("controller")]

GATE_KEYS = f"/api/v1/namespaces/rescheduler/configmaps/{GATE_CONFIG_MAP}"
OWNERS, VALUES = 32, 64
MOST_BYTES = 20 * MOST_HOME_BYTES
"""Of all writes in this test; it was 1.7 GiB."""


class Counting:
    """Counts what each write of the gate's ConfigMap stores: the whole object."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.written_bytes = 0

    def __getattr__(self, name):
        return getattr(self._transport, name)

    def send(self, request: Request) -> Response:
        answer = self._transport.send(request)
        if request.method == "PATCH" and request.path == GATE_KEYS:
            self.written_bytes += len(answer.body)
        return answer


@pytest.fixture(scope="module")
def counting(control_plane):
    return Counting(control_plane.api().transport)


@pytest.fixture(scope="module")
def controller(counting):
    with running(counting) as controller:
        yield controller


def attack(world, name, owners, values):
    """A Reservation of so many owners with so many long values each."""
    listed = [[f"{name}-{o:02}-{v:02}-{'v' * 60}"[:63] for v in range(values)] for o in range(owners)]
    key = f"{'k' * 40}.example.com/{'k' * 60}"
    selectors = [{"matchExpressions": [{"key": key, "operator": "In", "values": found}]} for found in listed]
    spec = {
        "owners": [{"object": {"namespace": world.namespace}, "labelSelector": each} for each in selectors],
        "template": {"spec": world.spec("1m")},
        "ttl": "10m",
    }
    return world.api.create(RESERVATIONS, documents.own("Reservation", name, spec))


def keys_of(world, *names):
    data = world.api.get(GATE_KEYS).expect().body.get("data") or {}
    return [key for key, name in data.items() if name in names]


def test_two_reservations_of_one_author_write_no_more_than_a_bound(world, counting):
    world.node("one", cpu="16")
    names = [f"{world.namespace}-{number}" for number in range(2)]
    for name in names:
        attack(world, name, OWNERS, VALUES).expect(422)
        attack(world, name, 16, 3).expect(201)
    for number in range(2):
        phase(world, str(number), "Available", PATIENCE_S)
    world.wait(lambda: len(keys_of(world, *names)) == 2 * 48, PATIENCE_S)
    for name in names:
        world.api.delete(f"{RESERVATIONS}/{name}").expect()
    world.wait(lambda: not keys_of(world, *names), PATIENCE_S)
    assert 0 < counting.written_bytes < MOST_BYTES
