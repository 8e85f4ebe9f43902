"""Our verdicts, reasons and scores beside those of kube-scheduler's own code.

RESCHEDULER_DIFFERENTIAL_CLUSTERS sets how many random clusters are compared (50 if unset, 500 nightly).
"""

import os

import pytest

from harness.differential.clusters import random_cluster
from harness.differential.comparison import Tally, compare
from harness.differential.named import NAMED
from harness.differential.named_configurations import REFUSED, TAKEN, about

CLUSTERS = int(os.environ.get("RESCHEDULER_DIFFERENTIAL_CLUSTERS", "50"))
DECIDING = {
    "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
    "InterPodAffinity", "NodeDeclaredFeatures", "SchedulingGates", "PreScore",
}  # fmt: skip


@pytest.mark.realcluster
def test_every_verdict_reason_and_score_is_that_of_kube_scheduler(program):
    tally, differences = Tally(), []
    for seed in range(CLUSTERS):
        question = random_cluster(seed)
        answer = program.ask(question)
        assert not answer.error, f"seed {seed}: {answer.error}"
        differences += [f"seed {seed}: {found}" for found in compare(question, answer, tally)]
    assert not differences, "\n".join(differences[:5])
    assert set(tally.refused_by) >= DECIDING, "a plugin never refused: the clusters no longer exercise it"
    assert tally.feasible > 0.2 * tally.verdicts
    assert {"PodTopologySpread", "InterPodAffinity", "VolumeBinding"} <= set(tally.scored_by)
    assert 0 < tally.not_judged < 0.05 * tally.verdicts


@pytest.mark.realcluster
@pytest.mark.parametrize("name", NAMED)
def test_the_named_cases_are_judged_as_by_kube_scheduler(program, name):
    answer = program.ask(NAMED[name])
    assert not answer.error
    assert not compare(NAMED[name], answer, Tally())


@pytest.mark.realcluster
@pytest.mark.parametrize("name", TAKEN)
def test_the_named_configurations_give_the_verdicts_of_kube_scheduler(program, name):
    question = about(TAKEN[name])
    answer = program.ask(question)
    assert not answer.error
    assert not compare(question, answer, Tally())


@pytest.mark.realcluster
@pytest.mark.parametrize("name", REFUSED)
def test_kube_scheduler_refuses_what_is_refused_here(program, name):
    assert program.ask(about(REFUSED[name])).error
