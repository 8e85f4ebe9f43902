"""The first decision after a start: it waits a moment for what only helps, and not for a server that hangs or fails."""

import contextlib
import math
import queue
import threading
import time
from types import SimpleNamespace

import pytest

from rescheduler.controller.call_pool import ThreadPool
from rescheduler.controller.decision_inputs import PATIENCE_S, DecisionInputs, RepeatedRead
from rescheduler.controller.usage_reading import UsageReader
from rescheduler.kube.errors import ApiError
from rescheduler.model.usage import NOTHING_MEASURED
from rescheduler.model.usage_settings import PrometheusSettings, UsageSettings
from tests.kube.measuring_servers import say, serving

SOON_S = PATIENCE_S + 4.0
"""On a busy machine; the server is given ten."""


@pytest.fixture
def ends():
    made = threading.Event()
    yield made
    made.set()


def inputs_from(url, **more):
    """As the controller asks for them, the usage from a server; gives a call that waits like its loop."""
    answered = queue.SimpleQueue()
    pool = ThreadPool(answered=lambda: answered.put(None))
    usage = UsageSettings(prometheus=PrometheusSettings(url=url))
    document = SimpleNamespace(current=SimpleNamespace(usage=usage, goes_by_measurement=True))
    inputs = DecisionInputs(
        usage=RepeatedRead(
            what="usage",
            read=UsageReader(None, document, time.time).read,
            pool=pool,
            every_s=30.0,
            unknown=NOTHING_MEASURED,
        ),
        node_autoscaler=RepeatedRead(
            what="autoscaler", read=lambda: False, pool=pool, every_s=30.0, unknown=False
        ),
        recorder=SimpleNamespace(awaited=False, current=dict),
        gate=RepeatedRead(what="gate", read=lambda: True, pool=pool, every_s=5.0),
        **more,
    )

    def first(most_s):
        """The inputs of the first decision, None if they are not there in time; and after how long."""
        began_s = time.monotonic()
        while (now_s := time.monotonic()) < began_s + most_s:
            pool.land(time.time())
            found = inputs.current(now_s, first=True, gated=True)
            if found is not None:
                return found, now_s - began_s
            until_s = min(inputs.awaited_until_s(first=True), began_s + most_s)
            try:
                answered.get(timeout=max(until_s - time.monotonic(), 0.001))
            except queue.Empty:
                continue
        return None, most_s

    return first


def test_a_server_that_hangs_delays_it_by_a_moment(ends):
    with serving(lambda _: ends.wait(30)) as url:
        found, after_s = inputs_from(url)(8.0)
        ends.set()
    assert found is not None
    assert found.usage is NOTHING_MEASURED
    assert found.gate_ready
    assert after_s < SOON_S


def test_a_server_that_answers_503_does_not_delay_it():
    with serving(lambda handler: say(handler, "busy", 503)) as url:
        found, after_s = inputs_from(url)(8.0)
    assert found is not None
    assert found.usage is NOTHING_MEASURED
    assert after_s < SOON_S


def test_the_only_decision_of_a_process_waits_for_all_that_helps(ends):
    with serving(lambda _: ends.wait(30)) as url:
        found, _ = inputs_from(url, patience_s=math.inf)(2.0)
        ends.set()
    assert found is None


@pytest.mark.parametrize(("error", "told"), [(ApiError(503, "busy"), False), (ZeroDivisionError(), True)])
def test_what_helps_only_is_taken_for_unknown_when_it_fails_and_a_bug_is_told_once(error, told):
    def fail():
        raise error

    answered = queue.SimpleQueue()
    pool = ThreadPool(answered=lambda: answered.put(None))
    read = RepeatedRead(what="usage", read=fail, pool=pool, every_s=30.0, unknown=NOTHING_MEASURED)
    assert read.current(0.0) is None
    answered.get(timeout=30.0)
    pool.land(0.0)
    with pytest.raises(ZeroDivisionError) if told else contextlib.nullcontext():
        read.current(1.0)
    assert read.current(2.0) is NOTHING_MEASURED
