"""The live page: what it tells and what it does not, what it costs, and that nobody can change anything by it."""

import dataclasses
import gzip
import http.client
import json

import msgspec
import pytest

from harness import builders as b
from rescheduler.configuration.document import Configuration
from rescheduler.configuration.policies_section import ConfiguredPolicy
from rescheduler.controller.crashes import CrashReports
from rescheduler.controller.cycle import Cycle
from rescheduler.controller.issuing import DryRunIssuer
from rescheduler.controller.live_page import Health, LivePage
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.server import Server
from rescheduler.planning.limits import Limits
from rescheduler.policies.node_taints import NodeTaintsArgs
from rescheduler.reports.cluster_status import MOST_SAMPLES, Trends
from rescheduler.reports.status_document import ClusterStatus, ControllerStatus, Presence
from rescheduler.scheduling.state import SharedSchedulingState

CONFIGURATION = Configuration(
    limits=Limits(moves_at_once=1), policies=(ConfiguredPolicy(name="NodeTaints", args=NodeTaintsArgs()),)
)
LED_BY_OTHER = ControllerStatus(presence=Presence.LEADING, holder="other-7")
HOSTILE = "<script>document.title='taken'</script>"


def decided(cluster):
    cycle = Cycle(
        issuer=DryRunIssuer(), metrics=Metrics(), states=SharedSchedulingState(), crashes=CrashReports()
    )
    return cycle.run(cluster, CONFIGURATION, gate_ready=True)


@pytest.fixture
def cluster(app):
    return b.snapshot(
        b.node("n1").taint("old").zone("a"), b.node("n2").zone("b"), b.node("n3"), app("web", ["n1"] * 3)
    )


@pytest.fixture
def serve():
    servers = []

    def start(page, **options):
        servers.append(Server(port=0, host="127.0.0.1", routes=page.routes(), **options))
        servers[-1].start()
        return servers[-1]

    yield start
    for one in servers:
        one.stop()


def ask(server, path="/state.json", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def state_of(page):
    return msgspec.json.decode(page.state().body, type=ClusterStatus)


def test_the_state_is_that_of_the_last_decision(cluster):
    page = LivePage(source="me", dry_run=True)
    page.publish(cluster, decided(cluster))
    state = state_of(page)
    assert [(n.name, n.zone, [*n.marks], n.pods) for n in state.nodes] == [
        ("n1", "a", ["Tainted"], 3),
        ("n2", "b", [], 0),
        ("n3", "", [], 0),
    ]
    assert [(p.name, p.badly_placed) for p in state.policies] == [("NodeTaints", 3), ("WorkloadSpread", 0)]
    assert [(x.reason, x.pods) for x in state.blocked] == [("LimitMovesAtOnce", 2)]
    assert [(m.phase, m.source) for m in state.moves] == [("Planned", "n1")]
    assert (state.dry_run, state.leads, state.pods, len(state.samples)) == (True, True, 3, 1)
    assert json.loads(page.state().body)["apiVersion"] == "rescheduler.dev/v1alpha1"


def test_a_follower_says_who_leads_and_nothing_else():
    page = LivePage(health=lambda: Health(leads=False, controller=LED_BY_OTHER))
    state = state_of(page)
    assert (state.leads, state.controller.holder, state.nodes, state.at) == (False, "other-7", (), "")


def test_it_says_how_long_ago_its_objects_were_seen(cluster):
    now_s = 100.0
    page = LivePage(clock=lambda: now_s)
    page.publish(cluster, decided(cluster))
    assert page.state().headers["Age"] == "0"
    now_s = 148.5
    assert page.state().headers["Age"] == "48"
    page.publish(cluster, decided(cluster))
    assert page.state().headers["Age"] == "0"


def test_marks_of_nodes(app):
    cluster = b.snapshot(
        b.node("cordoned").cordoned(), b.node("dead").not_ready(), b.node("plain"), app("web", ["plain"])
    )
    page = LivePage()
    page.publish(cluster, decided(cluster))
    assert {n.name: [*n.marks] for n in state_of(page).nodes} == {
        "cordoned": ["Cordoned"],
        "dead": ["NotReady"],
        "plain": [],
    }


def test_of_pods_there_are_only_names(serve):
    pod = b.pod("web-1", "shop").on("n1").label({"secret-label": "x"}).annotate({"secret-note": "x"})
    owner = b.replicaset("web", "shop").replicas(1)
    cluster = b.snapshot(b.node("n1").taint("old"), b.node("n2"), owner, pod.owned_by(owner))
    page = LivePage(dry_run=True)
    page.publish(cluster, decided(cluster))
    server = serve(page)
    answer, body = ask(server)
    assert answer.status == 200
    assert b"secret" not in body
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        refused, _ = ask(server, method=method)
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert ask(server, method="HEAD")[1] == b""
    assert ask(server, "/../../etc/passwd")[0].status == 404


def test_every_answer_allows_scripts_and_styles_of_its_own_files_only(serve):
    server = serve(LivePage())
    for path in ("/", "/style.css", "/parts.js", "/live.js", "/state.json"):
        answer, body = ask(server, path)
        policy = answer.headers["Content-Security-Policy"]
        assert answer.status == 200
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert b"https://" not in body
    page = ask(server, "/")[1].decode()
    assert "<style" not in page
    assert all("src=" in part.partition(">")[0] for part in page.split("<script")[1:])


def test_who_has_it_already_gets_no_body_and_who_takes_it_gets_it_compressed(serve, cluster):
    page = LivePage()
    page.publish(cluster, decided(cluster))
    server = serve(page)
    answer, body = ask(server)
    packed, small = ask(server, Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(small) == body
    again, nothing = ask(server, If_None_Match=answer.headers["ETag"])
    assert (again.status, nothing) == (304, b"")


def test_however_many_ask_the_document_is_made_once_a_second(cluster):
    now = [0.0]
    page = LivePage(clock=lambda: now[0])
    decision = decided(cluster)
    page.publish(cluster, decision)
    first = page.state().body
    page.publish(cluster, decision)
    assert page.state().body is first
    now[0] = 1.5
    second = page.state().body
    assert second is not first
    assert page.state().body is second
    now[0] = 9.0
    assert page.state().body is second  # nothing was handed over since


def test_the_document_of_a_big_cluster_is_bounded(app):
    nodes = [b.node(f"node-{i:05}").zone(f"z{i % 3}").pods(110) for i in range(5000)]
    cluster = b.snapshot(*nodes, app("web", [f"node-{i % 5000:05}" for i in range(20000)]))
    page = LivePage()
    page.publish(cluster, decided(cluster))
    answer = page.state()
    assert len(state_of(page).nodes) == 5000
    assert len(answer.body) < 2_000_000
    assert len(answer.gzipped) < 200_000
    assert b"web-1" not in answer.body


def test_trends_keep_a_sample_each_minute_for_hours(cluster):
    plan, trends = decided(cluster).plan, Trends()
    for second in range(0, 60 * (MOST_SAMPLES + 5), 20):
        trends.add(plan, (), float(second))
    assert len(trends.samples) == MOST_SAMPLES
    assert trends.samples[0].badly_placed == 3
    assert len({sample.at for sample in trends.samples}) == MOST_SAMPLES


def test_on_loopback_no_other_host_name_is_answered(serve):
    server = serve(LivePage(), hosts=frozenset({"127.0.0.1", "localhost"}))
    assert ask(server)[0].status == 200
    assert ask(server, Host=f"localhost:{server.port}")[0].status == 200
    refused, body = ask(server, Host="evil.example")
    assert (refused.status, body) == (403, b"not for this host name\n")


def test_hostile_names_are_text_in_a_real_browser(serve, browser, app):
    cluster = b.snapshot(b.node("n1").taint("old", HOSTILE).zone(HOSTILE), b.node("n2"), app("web", ["n1"]))
    page = LivePage(
        dry_run=True,
        source=HOSTILE,
        health=lambda: Health(
            controller=ControllerStatus(presence=Presence.LEADING, holder=HOSTILE + "\u202e")
        ),
    )
    page.publish(cluster, decided(cluster))
    server = serve(page)
    dom = browser(f"http://127.0.0.1:{server.port}/")
    assert "<title>rescheduler</title>" in dom
    assert 'class="cell load-' in dom
    assert HOSTILE not in dom
    assert "&lt;script&gt;document.title" in dom
    assert "\u202e" not in dom
    assert "dry run: nothing is changed" in dom


def test_what_a_decision_has_counted_is_shown_with_its_age_in_a_real_browser(serve, browser, cluster):
    now = [0.0]
    page = LivePage(clock=lambda: now[0])
    decision = decided(cluster)
    page.publish(cluster, decision)
    assert "as counted" not in browser(f"http://127.0.0.1:{serve(page).port}/")
    page.publish(dataclasses.replace(cluster, taken_at_s=cluster.taken_at_s + 245.0), decision)
    now[0] = 245.0  # the document is made once a second, and a browser may ask twice within one
    dom = browser(f"http://127.0.0.1:{serve(page).port}/")
    assert ", 4 min ago: pods and what they request were counted then" in dom
    assert "nodes / pods, 4 min ago" in dom
    assert dom.count("as counted 4 min ago") == 4
