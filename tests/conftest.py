"""Fixtures for all tests: logs as they were; the real control plane, one per session; plans made of builders, with landing places."""

import gc
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from harness import builders as b
from harness.controlplane import manifests
from harness.controlplane.binaries import BinariesMissing
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World
from harness.differential.program import Program, build
from rescheduler.planning.limits import Limits, PlanningInputs, Protections
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import NIGHTLY, examples

# Examples are judged by what they find, never by how long a loaded machine takes for them.
settings.register_profile(
    "unhurried", deadline=None, max_examples=examples(50, 100), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

# Tracebacks as plain text: structlog's own, with all local variables, take seconds where those are whole clusters.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ],
    # Not where a command that a test calls writes its results.
    logger_factory=structlog.PrintLoggerFactory(sys.stderr),
)


LIMIT_S = 600.0
"""Of a test: many times what the slowest takes on a loaded machine, so that a loop without end fails and is not waited for."""
LIMIT_OF_REAL_SERVERS_S = 1800.0
"""Of a test that starts real servers, or waits for them."""
_LOST = pytest.StashKey[bool]()
_REAL = ("realcluster", "koordinator", "strangers", "container")


def pytest_collection_modifyitems(config, items):
    """Tests have a time limit, where pytest-timeout is installed (``make install`` does so) and no ``--timeout=0`` is asked for.

    Of a test that is marked ``crossed`` only some combinations of its parameters are kept, all of them in the nightly run.
    """
    if not NIGHTLY:
        left_out = [
            item for item in items if item.get_closest_marker("crossed") and not on_the_diagonal(item)
        ]
        config.hook.pytest_deselected(items=left_out)
        out = set(left_out)
        items[:] = [item for item in items if item not in out]
    if not config.pluginmanager.hasplugin("timeout") or config.getoption("timeout") == 0:
        return
    for item in items:
        real = any(item.get_closest_marker(name) for name in _REAL)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_OF_REAL_SERVERS_S if real else LIMIT_S))


def on_the_diagonal(item):
    """True of as many combinations as the longest list of parameters has values: each value of each list is in one."""
    sizes = [len(list(mark.args[1])) for mark in item.iter_markers("parametrize")]
    at, number = [], next(iter(item.callspec.indices.values()))
    for size in reversed(sizes):  # pytest counts combinations, the last list first
        at.insert(0, number % size)
        number //= size
    return any(at == [each % size for size in sizes] for each in range(max(sizes)))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """A process of pytest-xdist died, and the tests that it still had are never run."""
    if error:
        node.config.stash[_LOST] = True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Then tests were not run, whatever became of those that were."""
    if session.config.stash.get(_LOST, False):
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def pytest_collection_finish():
    """What is collected lives until the end: the garbage collector does not look through all of it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def logs_of_this_test():
    """A test that configures the logs, as every command does, changes them for no other test of its process."""
    root, noisy = logging.getLogger(), logging.getLogger("urllib3")
    structure, handlers, levels = structlog.get_config(), root.handlers[:], (root.level, noisy.level)
    yield
    structlog.configure(**structure)
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    noisy.setLevel(levels[1])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    """A test of which a program is not built is skipped, with the words that say how to build it."""
    try:
        return (yield)
    except BinariesMissing as missing:
        pytest.skip(str(missing))


pytest_runtest_call = pytest_runtest_setup


@pytest.fixture(scope="session")
def control_plane():
    """A running control plane with kubelets for every node and everything of ``manifests/`` installed."""
    plane = ControlPlane()
    with plane:
        api = plane.api()
        with KubeletThread(api.transport):
            manifests.apply(api, manifests.load())
            yield plane


@pytest.fixture
def world(control_plane):
    """A corner of it."""
    with World(control_plane.api(), "test") as world:
        yield world


@pytest.fixture(scope="session")
def program():
    """The program that asks kube-scheduler's own code."""
    path = build()
    with Program(path) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the logs of the control plane and of the controller to the report of a failed test that used them."""
    report = yield
    used = getattr(item, "funcargs", {})
    if report.failed and "control_plane" in used:
        report.sections.append(("control plane logs", used["control_plane"].logs()))
    if report.failed and isinstance(used.get("log"), Path):
        report.sections.append(("controller log", used["log"].read_text()[-12_000:]))
    return report


@pytest.fixture
def decide():
    """decide(snapshot, "NodeTaints", {arguments by field name}) -> Plan, as if limits at once did not exist."""

    def decide(snapshot, *policies, inputs=None, profile=None):
        chosen = []
        for entry in policies:
            name, args = entry if isinstance(entry, tuple) else (entry, {})
            kind = REGISTRY[name]
            chosen.append(kind.build(kind.args(**args)))
        inputs = inputs or PlanningInputs(
            limits=Limits(), protections=Protections(), aggressiveness=0.5, unlimited=True
        )
        return plan(snapshot, chosen, inputs, SchedulingState(snapshot, profile))

    return decide


@pytest.fixture
def landings():
    """landings(plan) -> {pod name: target node}."""
    return lambda plan: {move.pod.name: move.target for move in plan.moves}


@pytest.fixture
def app():
    """app("web", on=["n1", "n1"], make=lambda pod: pod.cpu("1")) -> ReplicaSet and its pods web-0, web-1."""

    def app(name, on, make=lambda spec: spec, namespace="default", replicas=None):
        owner = make(b.replicaset(name, namespace)).replicas(replicas or max(len(on), 1))
        pods = []
        for i, place in enumerate(on):
            built = owner.pod(f"{name}-{i}")
            pods.append(built.on(place) if place else built)
        return [owner, *pods]

    return app


@pytest.fixture
def browser(tmp_path):
    """A headless Chromium: browser(url) -> the document after its scripts have run, as HTML; with ``picture`` a PNG there."""
    names = ("chromium", "google-chrome", "chromium-headless-shell")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine")

    def dom(url, *, width=1280, height=900, dark=False, picture=None):
        line = [
            *(found, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(f"--user-data-dir={tmp_path}", "--virtual-time-budget=4000", "--hide-scrollbars"),
            *(f"--window-size={width},{height}", f"--blink-settings=preferredColorScheme={0 if dark else 1}"),
            *([f"--screenshot={picture}"] if picture else ["--dump-dom"]),
            url,
        ]
        done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
        return done.stdout.replace("&nbsp;", " ")

    return dom
