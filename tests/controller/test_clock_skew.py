"""Ages are told by the API server's time: a wrong clock of the controller's machine changes nothing."""

from dataclasses import replace
from email.utils import formatdate, parsedate_to_datetime

import pytest
from scenes import Scene


class SeveralServers:
    """Every second answer comes from an API server whose clock is ahead."""

    def __init__(self, transport, ahead_s):
        self._transport, self.ahead_s, self._answers = transport, ahead_s, 0

    def send(self, request):
        answer = self._transport.send(request)
        self._answers += 1
        ahead_s = self.ahead_s if self._answers % 2 else 0.0
        told = parsedate_to_datetime(answer.headers["date"]).timestamp() + ahead_s
        return replace(answer, headers={**answer.headers, "date": formatdate(told, usegmt=True)})

    def stream(self, request):
        return self._transport.stream(request)


@pytest.fixture
def scene():
    return Scene({"n1": 4, "n2": 4}).workload(nodes=["n1", "n1", "n1"])


@pytest.mark.parametrize("ahead_s", [65.0, -65.0, 86_400.0])
def test_pods_get_their_rooms_whatever_the_clock_of_the_controller_shows(scene, ahead_s):
    program = scene.start(clock_ahead_s=ahead_s)
    moves = [scene.move(pod, "n2", ttl="2m") for pod in scene.pods()]
    scene.until(lambda: scene.over(*moves))
    assert [scene.reason(move) for move in moves] == ["Landed"] * 3
    assert scene.faults == []
    scene.advance(5.0)
    assert scene.leftovers() == []
    assert program.server_time.skew_s() == pytest.approx(ahead_s, abs=1.0)


def test_while_the_clocks_of_api_servers_differ_no_move_begins_and_the_status_says_so(scene):
    scene.calls.transport = servers = SeveralServers(scene.calls.transport, 9.0)
    scene.start()
    move = scene.move(scene.pods()[0], "n2", ttl="10m")
    scene.advance(30.0)
    assert (scene.phase(move), scene.reason(move)) == ("Pending", "Recording")
    assert "the clocks of the API servers differ by" in scene.state(move)["message"]
    assert len(scene.on("n1")) == 3
    servers.ahead_s = 0.0
    scene.succeed(move, limit_s=400.0)
