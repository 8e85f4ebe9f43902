"""Usage from a server with the HTTP API of Prometheus: what is read, what is said of wrong answers, credentials, time limits."""

import time

import pytest

from harness.strangers.build import find
from harness.strangers.tools import PROMETHEUS
from rescheduler.kube import prometheus as module
from rescheduler.kube.prometheus import Prometheus, PrometheusError, connect_to_prometheus
from rescheduler.kube.transport import TransportError
from rescheduler.model.measured import NodeUsage
from rescheduler.model.records import ObjectKey
from rescheduler.model.usage import PodUsage
from rescheduler.model.usage_settings import PrometheusQueries, PrometheusSettings
from rescheduler.webhook.certificates import renewed
from tests.kube.measuring_servers import PASSWORD, exporter, prometheus, say, serving, written

NOW_S = 1_800_000_000.0


def vector(*series):
    found = [{"metric": labels, "value": [NOW_S, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": found}}


def answers(**by_word):
    """Answers the query that has the word in it."""
    replies = {
        "node_cpu": vector(({"node": "n1"}, "1.25"), ({"node": "n2"}, "NaN")),
        "node_memory": vector(({"node": "n1"}, "1024"), ({"node": "n2"}, "1")),
        "pod_cpu": vector(
            ({"namespace": "shop", "pod": "a"}, "0.5"), ({"namespace": "shop", "pod": "b"}, "1")
        ),
        "pod_memory": vector(({"namespace": "shop", "pod": "a"}, "2048")),
    } | by_word

    def answer(handler):
        (reply,) = [reply for word, reply in replies.items() if f"query={word}" in handler.path]
        reply(handler) if callable(reply) else say(handler, reply)

    return answer


QUERIES = PrometheusQueries(
    node_cpu="node_cpu", node_memory="node_memory", pod_cpu="pod_cpu", pod_memory="pod_memory"
)


def asked(url, **settings):
    made = PrometheusSettings(url=url, queries=QUERIES, **settings)
    return Prometheus(made, connect_to_prometheus(made)).usage(NOW_S)


def pods(found):
    return lambda name, resource="cpu": PodUsage.of_readings(found.pods).of(ObjectKey("shop", name), resource)


def test_what_both_queries_tell_is_known_and_nothing_else():
    with serving(answers()) as url:
        found = asked(url)
    assert found.nodes == (NodeUsage("n1", 1250, 1024, NOW_S),)
    assert (pods(found)("a"), pods(found)("a", "memory"), pods(found)("b")) == (500.0, 2048.0, None)


def unauthorized(handler):
    say(handler, {"status": "error", "error": "who are you?"}, 401)


@pytest.mark.parametrize(("reply", "said"), [
    (lambda h: say(h, "<html>busy", 503), "nodeCpu: HTTP 503, and no answer of Prometheus: '<html>busy'"),
    (lambda h: say(h, {"status": "error", "error": "parse error"}, 400), "nodeCpu: HTTP 400: parse error"),
    (unauthorized, "nodeCpu: HTTP 401: who are you?"),
    (vector(), "nodeCpu and nodeMemory name no node that is in both"),
    (vector(({"node": "n3"}, "1")), "nodeCpu and nodeMemory name no node that is in both"),
    (vector(({"instance": "n1:9100"}, "1")), "nodeCpu: none of its 1 series has the labels of sum by (node)"),
    (lambda h: say(h, [1]), "no answer of Prometheus"),
])  # fmt: skip
def test_a_wrong_answer_is_said_with_the_key_of_its_query(reply, said):
    with serving(answers(node_cpu=reply)) as url, pytest.raises(PrometheusError) as error:
        asked(url)
    assert said in str(error.value)


def test_a_server_that_hangs_or_answers_for_ever_is_given_up_in_time(monkeypatch):
    monkeypatch.setattr(module, "LIMIT_S", 0.5)

    def drips(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b" " * 10)
            time.sleep(0.05)

    for reply in (lambda _: time.sleep(3), drips):
        began_s = time.monotonic()
        with serving(answers(node_cpu=reply)) as url, pytest.raises(TransportError):
            asked(url)
        assert time.monotonic() - began_s < 3


def test_of_very_many_pods_the_time_before_is_not_asked(monkeypatch):
    asked = []

    def reply(handler):
        asked.append(handler.path.partition("&")[0])
        answers()(handler)

    for most, expected in ((24, 4), (11, 2), (9, 0)):  # 24 hours and ten samples
        monkeypatch.setattr(module, "POINTS", most)
        asked.clear()
        with serving(reply) as url:
            settings = PrometheusSettings(url=url, queries=QUERIES)
            found = Prometheus(settings, connect_to_prometheus(settings)).usage_since(NOW_S, 300.0, 30.0)
        assert sum("query_range?query=pod" in path for path in asked) == expected
        assert sum("query_range?query=node" in path for path in asked) == 4
        assert found.pods.size == 1


def test_a_server_that_remembers_nothing_yet_tells_what_is_now():
    def reply(handler):
        say(handler, vector()) if "query_range" in handler.path else answers()(handler)

    with serving(reply) as url:
        settings = PrometheusSettings(url=url, queries=QUERIES)
        found = Prometheus(settings, connect_to_prometheus(settings)).usage_since(NOW_S, 300.0, 30.0)
    assert [one.node for one in found.nodes] == ["n1"]
    assert [look.nodes for look in found.earlier] == [()]


def test_nobody_there_is_an_error():
    with pytest.raises(TransportError):
        asked("http://127.0.0.1:1")


@pytest.fixture(scope="module")
def material():
    return renewed(None, ("127.0.0.1",), time.time())


def test_a_token_goes_over_tls_to_whom_the_authority_signed_and_is_read_anew(material, tmp_path):
    seen = []

    def checks(handler):
        seen.append(handler.headers["Authorization"])
        (answers() if seen[-1] == "Bearer new" else unauthorized)(handler)

    token = tmp_path / "token"
    token.write_text("old\n")
    with serving(checks, material, tmp_path) as url:
        ca = written(material, tmp_path)[0]
        settings = PrometheusSettings(url=url, queries=QUERIES, ca_file=ca, bearer_token_file=str(token))
        server = Prometheus(settings, connect_to_prometheus(settings))
        token.write_text("new\n")
        assert server.usage(NOW_S).nodes
        assert seen[:2] == ["Bearer old", "Bearer new"]
        seen.clear()
        with pytest.raises(TransportError):
            asked(url, bearer_token_file=str(token))  # without the authority
        assert seen == []


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(PrometheusError, match="token cannot be read"):
        asked("https://127.0.0.1:1", bearer_token_file=str(tmp_path / "token"))


def test_redirects_are_not_followed():
    def elsewhere(handler):
        handler.send_response(302)
        handler.send_header("Location", "http://127.0.0.1:1/")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with serving(answers(node_cpu=elsewhere)) as url, pytest.raises(PrometheusError, match="HTTP 302"):
        asked(url)


# The real one ---------------------------------------------------------------------------------------


@pytest.mark.realcluster
def test_a_real_prometheus_with_tls_and_a_password_tells_what_was_and_what_is(material, tmp_path):
    program = str(find(PROMETHEUS))
    (tmp_path / "password").write_text(PASSWORD)
    fast = PrometheusQueries()
    queries = PrometheusQueries(
        **{
            name: getattr(fast, name).replace("[2m]", "[5s]")
            for name in ("node_cpu", "node_memory", "pod_cpu", "pod_memory")
        }
    )
    with (
        serving(exporter) as exported,
        prometheus(program, exported.removeprefix("http://"), tmp_path, material) as url,
    ):
        settings = PrometheusSettings(
            url=url,
            queries=queries,
            ca_file=str(tmp_path / "ca.crt"),
            username="reader",
            password_file=str(tmp_path / "password"),
        )
        server = Prometheus(settings, connect_to_prometheus(settings))
        time.sleep(12)
        now = server.usage(time.time())
        assert {one.node: one.cpu_milli for one in now.nodes} == pytest.approx(
            {"n1": 3000, "n2": 500}, rel=0.02
        )
        assert pods(now)("hot") == pytest.approx(2500, rel=0.02)
        assert pods(now)("calm", "memory") == 1 << 30
        before = server.usage_since(time.time(), 300.0, 1.0)
        assert len(before.earlier) >= 4  # at once, and no look where nothing was
        assert {one.node: one.cpu_milli for one in before.earlier[-1].nodes} == pytest.approx(
            {"n1": 3000, "n2": 500}, rel=0.02
        )
        (tmp_path / "password").write_text("wrong")
        with pytest.raises(PrometheusError, match="HTTP 401"):
            Prometheus(settings, connect_to_prometheus(settings)).usage(time.time())
        wrong = PrometheusSettings(
            **{f: getattr(settings, f) for f in settings.__struct_fields__}
            | {"queries": PrometheusQueries(node_cpu="sum by (")}
        )
        (tmp_path / "password").write_text(PASSWORD)
        with pytest.raises(PrometheusError, match=r"nodeCpu: HTTP 400: .*parse error"):
            Prometheus(wrong, connect_to_prometheus(wrong)).usage(time.time())
