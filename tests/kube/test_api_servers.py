"""Whether there is one API server is counted by their Leases; whatever is not known counts as several."""

import time

import pytest

from rescheduler.kube.api_servers import SEVERAL_S, SINGLE_S, ApiServers
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ForbiddenError
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import TransportError

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
OWN = {"metadata": {"name": "apiserver-a"}}
OTHER = {"metadata": {"name": "apiserver-b"}}


@pytest.fixture
def servers(fake_transport, answer, clock):
    """servers(leases): what is asked, and the list that is answered; change it in place."""

    def make(leases):
        asked = []

        def answered(request):
            asked.append(request)
            if leases and isinstance(leases[0], Exception):
                raise leases[0]
            return answer(200, {"kind": "LeaseList", "items": leases})

        return ApiServers(KubeApi(fake_transport(answered), NO_RETRY), lambda: clock.now_s), asked

    return make


@pytest.mark.parametrize(
    ("leases", "single"),
    [([OWN], True), ([OWN, OTHER], False), ([], False), ([TransportError("away")], False)],
    ids=["one", "two", "none", "no answer"],
)
def test_only_one_lease_says_that_there_is_one(servers, leases, single):
    counted, asked = servers(leases)
    assert counted.single() is single
    (request,) = asked
    assert request.path == LEASES
    assert request.query["labelSelector"] == "apiserver.kubernetes.io/identity=kube-apiserver"


def test_without_the_right_there_may_be_several(fake_transport, refusal):
    api = KubeApi(fake_transport(lambda _: refusal(403, "Forbidden")), NO_RETRY)
    with pytest.raises(ForbiddenError):
        api.get("/")
    assert not ApiServers(api, lambda: 0.0).single()


def test_a_server_that_is_added_is_seen_within_half_a_minute(servers, clock):
    leases = [OWN]
    counted, asked = servers(leases)
    assert counted.single()
    leases.append(OTHER)
    clock.now_s += SINGLE_S - 1
    assert counted.single()
    clock.now_s += 1
    assert not counted.single()
    assert len(asked) == 2


def test_several_are_not_counted_again_for_each_move(servers, clock):
    leases = [OWN, OTHER]
    counted, asked = servers(leases)
    assert not counted.single()
    leases.pop()
    clock.now_s += SEVERAL_S - 1
    assert not counted.single()
    assert len(asked) == 1
    clock.now_s += 1
    assert counted.single()


@pytest.mark.realcluster
def test_the_controller_may_count_the_leases_that_kube_apiserver_writes(control_plane):
    api = KubeApi(control_plane.account().transport)
    assert ApiServers(api, time.monotonic).single()
    labels = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
    second = {"metadata": {"name": "apiserver-of-another-host", "labels": labels}, "spec": {}}
    control_plane.api().create(LEASES, second).expect(201)
    try:
        assert not ApiServers(api, time.monotonic).single()
    finally:
        control_plane.api().delete(f"{LEASES}/apiserver-of-another-host").expect()
