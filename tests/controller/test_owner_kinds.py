"""The API server is asked once about each kind of owner, and again only where it did not answer."""

from __future__ import annotations

from structlog.testing import capture_logs

from rescheduler.controller.owner_kinds import AGAIN_S, WATCHED, OwnerKinds
from rescheduler.kube.discovery import ServedKinds
from rescheduler.kube.transport import TransportError
from rescheduler.model.records import OwnerRef
from rescheduler.model.replacement_rules import ReplacementRules
from rescheduler.replacements.controllers import BUILT_IN

WIDGET = OwnerRef("example.com/v1", "Widget", "w", "w")
GADGET = OwnerRef("example.com/v1", "Gadget", "g", "g")


class Server:
    """Widgets can be scaled."""

    def __init__(self):
        self.asked, self.away, self.now_s = [], False, 0.0
        self.kinds = OwnerKinds(self.answer, lambda: self.now_s)

    def answer(self, api_version, kind):
        self.asked.append((api_version, kind))
        if self.away:
            raise TransportError("no answer")
        return ServedKinds(frozenset({"Widget", "Gadget"}), frozenset({"Widget"}))

    def known(self):
        rules = self.kinds.rules(ReplacementRules(jobs=True))
        return set(rules.scalable), set(rules.not_scalable)


def test_each_kind_is_asked_about_once():
    server = Server()
    server.kinds.see([WIDGET, GADGET, WIDGET, None])
    assert server.kinds.ask()
    server.kinds.see([WIDGET])
    assert not server.kinds.ask()
    assert sorted(server.asked) == [("example.com/v1", "Gadget"), ("example.com/v1", "Widget")]
    assert server.known() == ({("example.com", "Widget")}, {("example.com", "Gadget")})


def test_kinds_of_kubernetes_are_not_asked_about():
    server = Server()
    kinds = [("apps/v1", "ReplicaSet"), ("batch/v1", "Job"), ("apps/v1", "DaemonSet"), ("v1", "Node")]
    server.kinds.see(OwnerRef(version, kind, "x", "x") for version, kind in kinds)
    assert not server.kinds.ask()
    assert server.asked == []


def test_without_an_answer_a_kind_stays_unknown_and_is_asked_about_again():
    server = Server()
    server.away = True
    server.kinds.see([WIDGET])
    assert not server.kinds.ask()
    assert server.known() == (set(), set())
    server.away = False
    assert not server.kinds.ask()  # not before a while has passed
    server.now_s = AGAIN_S
    assert server.kinds.ask()
    assert server.known()[0] == {("example.com", "Widget")}


def test_what_is_configured_stays_and_a_change_of_it_is_seen():
    server = Server()
    first, second = ReplacementRules(jobs=True), ReplacementRules(jobs=False)
    assert server.kinds.rules(first) is server.kinds.rules(first)
    assert (server.kinds.rules(first).jobs, server.kinds.rules(second).jobs) == (True, False)
    assert server.kinds.rules(first).watched == WATCHED == BUILT_IN


def test_a_kind_that_is_not_answered_for_is_logged_once_and_not_at_each_try():
    server = Server()
    server.away = True
    server.kinds.see([WIDGET])
    with capture_logs() as lines:
        for _ in range(60):
            server.kinds.ask()
            server.now_s += AGAIN_S
    assert [line["log_level"] for line in lines].count("warning") == 1
