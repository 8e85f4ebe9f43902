"""The demonstration's scenario arises as it should, its figures tell tidy from untidy, and the controller makes it tidy."""

import random

import pytest

from harness.histories.program import Program, ProgramOptions
from harness.histories.user_requests import MOVE
from kube_sandbox import demo
from kube_sandbox.controllers.unstructured import GroupKind, labels, spec, status
from kube_sandbox.demo.command import CONFIGURATION
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.sandbox import Sandbox
from tests.seeds import fresh


def test_scenario_ends_untidy_in_every_way_for_every_seed():
    for seed in range(5):
        cluster = Sandbox(seed=seed)
        demo.build(cluster)
        cluster.advance(3)
        found = demo.measure(cluster.api)
        assert found.pending == 0
        assert found.busiest > 80
        assert found.on_tainted > 0
        assert found.sharing_a_rack == 2
        assert found.web_skew == 3
        assert found.violations > 5


def test_payments_ends_on_a_node_without_its_label_or_with_a_taint():
    cluster = Sandbox(seed=0)
    demo.build(cluster)
    found = demo.measure(cluster.api)
    assert found.affinity_broken + found.on_tainted >= 2


def test_crawlers_compete_all_the_time_and_end():
    cluster = Sandbox(seed=0)
    demo.build(cluster)
    jobs = cluster.api
    busy = []
    for _ in range(40):
        cluster.advance(1)
        pods = [p for p in jobs.list(GroupKind("", "Pod")) if labels(p).get("app") == "crawler"]
        busy.append(sum(status(p).get("phase") == "Running" for p in pods))
    assert max(busy) == 4
    assert sum(count > 0 for count in busy) > 35
    cluster.advance(60)
    job = jobs.get(GroupKind("batch", "Job"), "shop", "crawler")
    assert status(job)["succeeded"] == spec(job)["completions"]


@pytest.mark.parametrize("seed", fresh(1))
def test_untidy_cluster_becomes_tidy_and_every_replacement_lands(seed):
    """That no eviction goes into the void and no budget is overrun is what the histories show, crashes included."""
    kubelet = KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=0.5)
    cluster = Sandbox(seed=seed, interleave=True, kubelet=kubelet)
    install(cluster.transport)
    demo.build(cluster)
    cluster.advance(2)
    cluster.add(Program(cluster, random.Random(seed), ProgramOptions(document=CONFIGURATION.encode())))  # noqa: S311

    def tidy():
        phases = {status(move).get("phase") for move in cluster.api.list(MOVE)}
        return phases <= {"Succeeded", "Failed"} and demo.measure(cluster.api).violations == 0

    cluster.run_until(tidy, 600)
    cluster.advance(30)
    found = demo.measure(cluster.api)
    assert (found.violations, found.pending) == (0, 0)
    done = [move for move in cluster.api.list(MOVE) if status(move)["phase"] == "Succeeded"]
    assert len(done) >= 6
    assert all(status(move)["nodeName"] == spec(move)["target"]["nodeName"] for move in done)
