"""Shared pieces of the tests on the embedded cluster."""

import pytest

from rescheduler.sim.cluster import EmbeddedCluster
from rescheduler.sim.machines import MachineSpec


@pytest.fixture
def make_cluster():
    made = []

    def make(count=3, *, cpu="4", seed=1, **more):
        machines = [MachineSpec(name=f"n{i}", cpu=cpu, zone=f"z{i % 3}") for i in range(1, count + 1)]
        cluster = EmbeddedCluster(machines, seed=seed, **more)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.stop()
