"""The informer over real sockets, against a server that does what it should not."""

import json
import queue
import time

import pytest
from structlog.testing import capture_logs

from rescheduler.kube.connection import connect_to
from rescheduler.kube.informer import Informer, SharedDecoder
from rescheduler.kube.reflector import ChangeType, End, EndKind
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from tests.kube.node_answers import bookmark, node, node_list, quiet
from tests.waiting import until

DECODER = SharedDecoder(Decoder())


class Script:
    """Lists get the next of ``lists``, watches the next of ``watches``; the last one repeats."""

    def __init__(self, lists=(), watches=()):
        self.lists, self.watches = list(lists), list(watches)

    def __call__(self, exchange):
        steps = self.watches if "watch" in exchange.call.query else self.lists
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        if callable(step):
            step(exchange)
        else:
            exchange.json(200, step)


def events(*pairs, then=lambda x: x.hang()):
    def run(exchange):
        exchange.open_stream()
        for kind, item in pairs:
            exchange.event(kind, item)
        then(exchange)

    return run


class Watched:
    def __init__(self, informer, events_queue, server):
        self.informer, self.queue, self.server = informer, events_queue, server

    def next(self, timeout=5):
        event = self.queue.get(timeout=timeout)
        return event.type, event.record.name if event.record else None

    def until_synced(self):
        seen = []
        while not seen or seen[-1][0] is not ChangeType.SYNCED:
            seen.append(self.next())
        return [name for _, name in seen[:-1]]

    @property
    def lists(self):
        return [c for c in self.server.calls if "watch" not in c.query]

    @property
    def watches(self):
        return [c for c in self.server.calls if "watch" in c.query]


@pytest.fixture
def watched(fault_server):
    informers = []

    def start(script, *, watch_list=False, silence_s=5.0, chance=0.01):
        server = fault_server(script)
        events_queue = queue.SimpleQueue()
        informer = Informer(
            Kind.NODE, RESOURCES[Kind.NODE], connect_to(server.url), DECODER, events_queue,
            watch_list=watch_list, silence_s=silence_s, chance=lambda: chance,
        )  # fmt: skip
        informers.append(informer)
        informer.start()
        return Watched(informer, events_queue, server)

    yield start
    for informer in informers:
        informer.stop()
    for informer in informers:
        assert informer.join(5)


def test_pages_then_a_watch_from_the_version_of_the_list(watched):
    w = watched(Script([node_list(node("a"), token="t"), node_list(node("b"), version="10")], [
        events(("ADDED", node("c", "11")), ("MODIFIED", node("a", "12", x="y")), ("DELETED", node("b", "13"))),
    ]))  # fmt: skip
    assert w.until_synced() == ["a", "b"]
    assert [w.next() for _ in range(3)] == [
        (ChangeType.ADDED, "c"),
        (ChangeType.MODIFIED, "a"),
        (ChangeType.DELETED, "b"),
    ]
    assert (w.informer.synced, w.informer.objects, w.informer.problem) == (True, 2, "")
    assert [c.query.get("continue") for c in w.lists] == [None, "t"]
    (watch,) = w.watches
    assert watch.query["resourceVersion"] == "10"
    assert watch.query["allowWatchBookmarks"] == "true"
    assert 22 <= int(watch.query["timeoutSeconds"]) <= 30


def test_watch_list_needs_no_list(watched):
    w = watched(
        Script(
            [],
            [events(("ADDED", node("a")), ("BOOKMARK", bookmark("9", end=True)), ("ADDED", node("b", "10")))],
        ),
        watch_list=True,
    )
    assert w.until_synced() == ["a"]
    assert w.next() == (ChangeType.ADDED, "b")
    query = w.watches[0].query
    assert (query["sendInitialEvents"], query["resourceVersionMatch"]) == ("true", "NotOlderThan")
    assert "resourceVersion" not in query
    assert w.lists == []


@pytest.mark.parametrize("code", [400, 422])
def test_a_server_without_watch_list_is_listed(watched, code):
    w = watched(Script([node_list(node("a"))], [lambda x: x.status(code, "Invalid"), quiet]), watch_list=True)
    assert w.until_synced() == ["a"]
    until(lambda: len(w.watches) == 2)
    assert w.watches[1].query["resourceVersion"] == "10"


def test_a_server_that_ignores_send_initial_events_is_listed(watched):
    w = watched(
        Script([node_list(node("a"), node("b"))], [events(("ADDED", node("a"))), quiet]),
        watch_list=True,
        silence_s=0.3,
    )
    assert sorted(w.until_synced()) == ["a", "b"]


def test_gone_inside_the_stream_lists_again_and_finds_what_was_missed(watched):
    expired = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
    w = watched(
        Script(
            [node_list(node("a"), node("b")), node_list(node("a"), node("c"), version="20")],
            [events(("ERROR", expired)), quiet],
        )
    )
    assert w.until_synced() == ["a", "b"]
    assert [w.next(), w.next()] == [(ChangeType.ADDED, "c"), (ChangeType.DELETED, "b")]
    until(lambda: len(w.watches) == 2)
    assert [c.query["resourceVersion"] for c in w.watches] == ["10", "20"]
    assert w.informer.relists[EndKind.EXPIRED] == 1


def test_gone_as_http_status_lists_again(watched):
    w = watched(
        Script([node_list(node("a")), node_list(version="20")], [lambda x: x.status(410, "Expired"), quiet])
    )
    assert w.until_synced() == ["a"]
    assert w.next() == (ChangeType.LOST, "a")


@pytest.mark.parametrize(
    "line", [b'{"type":"ADDED","obj', b"<html>", b'{"type":"WHAT","object":{}}', b"\xff\xfe"]
)
def test_a_line_that_cannot_be_read_is_counted_and_everything_listed_again(watched, line):
    w = watched(
        Script(
            [node_list(node("a")), node_list(node("a"), node("b"), version="20")],
            [lambda x: (x.open_stream(), x.chunk(line + b"\n"), x.hang()), quiet],
        )
    )
    assert w.until_synced() == ["a"]
    assert w.next() == (ChangeType.ADDED, "b")
    assert w.informer.decode_errors == 1
    assert w.informer.relists[EndKind.UNDECODABLE] == 1


def test_a_stream_cut_inside_a_line_goes_on_from_the_last_whole_one(watched):
    half = json.dumps({"type": "ADDED", "object": node("c", "12")}).encode()[:40]
    w = watched(Script([node_list(node("a"))], [
        events(("ADDED", node("b", "11")), then=lambda x: (x.chunk(half), x.end_stream())),
        events(("ADDED", node("c", "12"))),
    ]))  # fmt: skip
    assert w.until_synced() == ["a"]
    assert [w.next(), w.next()] == [(ChangeType.ADDED, "b"), (ChangeType.ADDED, "c")]
    assert w.watches[1].query["resourceVersion"] == "11"
    assert len(w.lists) == 1
    assert w.informer.decode_errors == 0


@pytest.mark.parametrize("fault", ["reset", "cut"])
def test_a_broken_stream_is_taken_up_where_it_ended(watched, fault):
    w = watched(Script([node_list(node("a"))], [
        events(("BOOKMARK", bookmark("15")), then=lambda x: (time.sleep(0.1), getattr(x, fault)())),
        events(("ADDED", node("b", "16"))),
    ]))  # fmt: skip
    assert w.until_synced() == ["a"]
    assert w.next() == (ChangeType.ADDED, "b")
    assert w.watches[1].query["resourceVersion"] == "15"


def test_a_half_open_connection_is_left_after_the_silence(watched):
    w = watched(Script([node_list(node("a"))], [quiet, events(("ADDED", node("b", "11")))]), silence_s=0.3)
    assert w.until_synced() == ["a"]
    assert w.next() == (ChangeType.ADDED, "b")
    assert w.informer.stale_for_s() < 5
    assert w.informer.problem == ""


def test_one_damaged_object_costs_nothing_but_itself(watched):
    broken = node("broken")
    broken["metadata"]["labels"] = 5
    w = watched(Script([node_list(node("a"), broken, node("b"))], [events(("MODIFIED", {**broken}))]))
    assert w.until_synced() == ["a", "broken", "b"]
    until(lambda: w.informer.decode_errors == 2)
    assert w.informer.objects == 3


@pytest.mark.parametrize("fault", [
    lambda x: x.answer(503, b"<html><h1>503</h1></html>", {"Content-Type": "text/html"}),
    lambda x: x.status(429, "TooManyRequests"),
    lambda x: x.answer(200, b"<html>login</html>"),
    lambda x: x.answer(200, b""),
    lambda x: x.reset(),
], ids=["html 503", "429", "html 200", "empty", "reset"])  # fmt: skip
def test_a_list_that_fails_is_asked_for_again(watched, fault):
    w = watched(Script([fault, fault, node_list(node("a"))], [quiet]))
    assert w.until_synced() == ["a"]
    assert len(w.lists) == 3


def test_retry_after_holds_the_next_try_back(watched):
    w = watched(
        Script([lambda x: x.status(429, headers={"Retry-After": "1"}), node_list(node("a"))], [quiet])
    )
    started = time.monotonic()
    assert w.until_synced() == ["a"]
    assert time.monotonic() - started >= 1.0


def test_stopping_ends_a_waiting_watch_at_once(watched):
    w = watched(Script([node_list()], [quiet]), silence_s=60)
    w.until_synced()
    until(lambda: len(w.watches) == 1)
    time.sleep(0.05)
    w.informer.stop()
    assert w.informer.join(2)
    assert not w.informer.died


def test_the_collector_of_garbage_is_on_again_after_the_list(watched):
    import gc  # noqa: PLC0415

    w = watched(Script([node_list(node("a"))], [quiet]))
    w.until_synced()
    until(gc.isenabled)
    assert gc.get_freeze_count() > 0


@pytest.mark.parametrize(("kind", "end", "level"), [
    (Kind.RESERVATION, EndKind.ABSENT, "info"),
    (Kind.NODE, EndKind.DENIED, "warning"),
    (Kind.NODE, EndKind.BROKEN, "info"),
])  # fmt: skip
def test_a_problem_that_lasts_is_not_logged_at_each_try(kind, end, level, clock):
    informer = Informer(kind, RESOURCES[kind], None, DECODER, queue.SimpleQueue(), clock=clock)
    with capture_logs() as lines:
        ends_s = clock.now_s + 540.0
        while clock.now_s < ends_s:
            clock.sleep(1.0 + informer._ended(End(end, "no")))
    assert [line["log_level"] for line in lines if line["log_level"] != "debug"] == [level]
