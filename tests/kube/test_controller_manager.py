"""When kube-controller-manager counts as away."""

import pytest

from rescheduler.kube.client import KubeApi
from rescheduler.kube.controller_manager import AWAY_S, LEFT_S, LOOK_S, ControllerManager
from rescheduler.kube.retry import NO_RETRY
from rescheduler.model.times import format_micros

NOW_S = 1_800_000_000.0


class Cluster:
    """An API server with the Lease of a leader that renews it now and then."""

    def __init__(self, fake_transport):
        self.now_s, self.renewed_s, self.asked, self.answer = NOW_S, NOW_S, 0, None
        self.manager = ControllerManager(
            KubeApi(fake_transport(self._list), NO_RETRY), lambda: self.now_s, lambda: self.now_s
        )

    def _list(self, _request):
        self.asked += 1
        spec = {"holderIdentity": "a", "renewTime": format_micros(self.renewed_s)}
        return self.answer or {"kind": "LeaseList", "items": [{"metadata": {"name": "x"}, "spec": spec}]}

    def away_after(self, seconds):
        self.now_s += seconds
        return self.manager.away()


@pytest.fixture
def cluster(fake_transport):
    return Cluster(fake_transport)


def test_it_is_away_once_its_lease_is_not_renewed(cluster):
    assert not cluster.away_after(0.0)
    assert not cluster.away_after(AWAY_S)
    assert f"has not renewed its Lease in kube-system for {AWAY_S + LOOK_S:.0f} s" in cluster.away_after(
        LOOK_S
    )
    cluster.renewed_s = cluster.now_s
    assert not cluster.away_after(1.0)


def test_it_is_asked_seldom_while_it_is_at_work(cluster):
    for _ in range(40):
        cluster.renewed_s = cluster.now_s
        assert not cluster.away_after(0.5)
    assert cluster.asked == 20.0 / LOOK_S


@pytest.mark.parametrize("behind_s", [AWAY_S + 60, -3_600.0])
def test_another_clock_stops_nothing_while_the_lease_is_renewed(cluster, behind_s):
    cluster.renewed_s = NOW_S - behind_s
    cluster.manager.away()
    for _ in range(10):
        cluster.renewed_s += 2.0
        assert not cluster.away_after(2.0)


@pytest.mark.parametrize("answer", ["none", "forbidden", "left"])
def test_without_a_lease_nothing_is_known(cluster, refusal, answer):
    if answer == "left":
        cluster.renewed_s = NOW_S - LEFT_S - 1
    else:
        cluster.answer = {"items": []} if answer == "none" else refusal(403, "Forbidden")
    assert not cluster.away_after(0.0)
    assert not cluster.away_after(3_600.0)


def test_an_answer_that_fails_is_asked_for_again_soon(cluster, refusal):
    cluster.answer = refusal(503, "ServiceUnavailable")
    assert not cluster.away_after(0.0)
    cluster.answer = None
    cluster.away_after(LOOK_S)
    assert cluster.away_after(AWAY_S)
