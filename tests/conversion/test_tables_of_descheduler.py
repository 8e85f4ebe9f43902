"""Who goes by a converted policy of descheduler, in the situations of its own tests; without a place to go, nobody."""

import pytest

from tests.conversion import (
    table_of_anti_affinity,
    table_of_duplicates,
    table_of_high_node_utilization,
    table_of_low_node_utilization,
    table_of_node_affinity,
    table_of_node_taints,
    table_of_restarts_and_age,
    table_of_the_evictor,
    table_of_topology_spread,
)
from tests.conversion.tables import agree, nobody_goes_without_spare

TABLES = (
    *table_of_anti_affinity.TABLES, *table_of_duplicates.TABLES, *table_of_high_node_utilization.TABLES,
    *table_of_low_node_utilization.TABLES, *table_of_node_affinity.TABLES, *table_of_node_taints.TABLES,
    *table_of_restarts_and_age.TABLES, *table_of_the_evictor.TABLES, *table_of_topology_spread.TABLES,
)  # fmt: skip
WITH_A_SPARE_NODE = (
    *table_of_anti_affinity.TABLES, *table_of_node_taints.TABLES, table_of_restarts_and_age.TABLES[1],
)  # fmt: skip


def rows(tables):
    return [pytest.param(plugin, row, id=f"{plugin}-{row}") for plugin, rows in tables for row in rows]


@pytest.mark.parametrize(("plugin", "row"), rows(TABLES))
def test_who_goes(plugin, row):
    agree(plugin, row)


@pytest.mark.parametrize(("plugin", "row"), rows(WITH_A_SPARE_NODE))
def test_nobody_goes_without_a_place(plugin, row):
    nobody_goes_without_spare(plugin, row)
