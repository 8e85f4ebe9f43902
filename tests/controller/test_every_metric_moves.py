"""Every series that the controller exports changes when what it tells of happens: a series that never does is no metric."""

import re
from collections import defaultdict
from email.utils import formatdate

import pytest
from scenes import NODE, Scene, lone_pod, refusal

from harness.documents import own
from rescheduler.kube.reflector import ChangeType, InformerEvent
from rescheduler.model.kinds import Kind
from rescheduler.model.names import API_VERSION

HEAD = f"apiVersion: {API_VERSION}\nkind: ReschedulerConfiguration\n"
DOCUMENT = HEAD + (
    "aggressiveness: aggressive\ninterval: 2s\npolicies: [{name: NodeTaints, after: 0s}, {name: LowNodeUtilization, usage: actual}]\n"
    "limits: {movesAtOnce: 1, movesPerHour: 600, workloadCooldown: 2s}\n"
)
CONSTANT = {"rescheduler_build_info"}


OWNERS = [{"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "later"}}}]


def hold_room(api):
    room = {"template": {"spec": lone_pod("template", cpu_milli=100)["spec"]}, "owners": OWNERS}
    api.create(own("HeadRoom", "spare", {**room, "rooms": 1}))
    times = {"cron": "0 3 * * *", "duration": "1h", "podNumToReserve": 1}
    api.create(own("ReservationWindow", "nightly", {**room, **times}))


class Watched:
    """The values that each series has had."""

    def __init__(self, program):
        self.metrics, self.values = program.metrics, defaultdict(set)
        self.look()

    def look(self):
        for line in self.metrics.render().decode().splitlines():
            if not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                self.values[series].add(float(value))

    def moved(self, series):
        return any(len(values) > 1 for name, values in self.values.items() if name.startswith(series))

    @property
    def names(self):
        """Of the metrics, without labels and without what a histogram adds."""
        found = {re.sub(r"(_bucket|_count|_sum)?(\{.*)?$", "", series) for series in self.values}
        return found - CONSTANT


@pytest.fixture
def scene():
    made = Scene({"n1": 2, "n2": 2, "n3": 2}).workload(nodes=["n1"])
    made.workload(name="api", nodes=["n1"])
    return made


def test_every_series_moves(scene):
    program = scene.start(document=DOCUMENT.encode())
    program.caches.refuse(Kind.NODE, scene.now_s + 0.5)
    program.kill()  # the next process waits for its first list
    watched = Watched(program)

    def passes(seconds):
        ends_s = scene.now_s + seconds
        while scene.now_s < ends_s:
            scene.advance(1.0)
            watched.look()

    passes(5.0)
    scene.calls.answer(  # a decision whose move cannot be begun
        lambda c: c.path.endswith("/podmigrations"), lambda _: refusal(500, "InternalError")
    )
    scene.taint("n1")
    passes(40.0)
    scene.calls.answers.clear()
    passes(30.0)
    assert not scene.on("n1")
    hold_room(scene.api)
    passes(30.0)
    program.document.content = b"policies: nobody\n"
    passes(11.0)
    program.document.content = None
    passes(11.0)
    program.document.content = (HEAD + "policies: []\nserver: {port: 9000}\n").encode()  # waits for a restart
    passes(11.0)
    program.caches.refuse(Kind.NODE, scene.now_s + 200.0)
    scene.move(scene.pods()[0], "n1")
    passes(150.0)
    program.document.content = DOCUMENT.encode()  # a decision is due, and the caches are stale
    passes(70.0)
    damaged = scene.api.get(NODE, "", "n3")
    damaged["status"]["allocatable"]["cpu"] = "many"
    program.caches._watches[Kind.NODE]._record(damaged)
    program.caches.events.put(InformerEvent(Kind.NODE, ChangeType.ADDED, "no record"))
    program.events.dropped = 1
    program.caches.break_off(scene.now_s, forgotten=True)
    passes(10.0)
    heard_at_s = program.server_time.clock()
    program.server_time.heard(formatdate(scene.now_s + 60.0, usegmt=True), heard_at_s, heard_at_s)
    watched.look()
    scene.take_lease()
    program.elector.attempt()
    program.leads()
    watched.look()
    still = {name for name in watched.names if not watched.moved(name)}
    # Those of the guard move where API servers call it (tests/guard/test_guard_on_the_control_plane.py); pods ask for a node where
    # nothing fits (test_node_requests.py).
    assert {n for n in still if not n.startswith("rescheduler_guard_")} == {"rescheduler_node_requests"}
    for result in ("decided", "not_ready", "failed"):
        assert watched.moved(f'rescheduler_cycles_total{{result="{result}"}}'), result
    for result in ("taken", "refused", "missing"):
        assert watched.moved(f'rescheduler_configuration_reloads_total{{result="{result}"}}'), result
    assert watched.values["rescheduler_moves_in_flight"] == {0.0, 1.0}
    assert watched.values["rescheduler_leader"] == {0.0, 1.0}
