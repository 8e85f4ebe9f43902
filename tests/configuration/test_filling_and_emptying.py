"""LowNodeUtilization and HighNodeUtilization are not both wanted on the same nodes."""

import pytest

from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError

DOCUMENT = """\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
policies:
- name: LowNodeUtilization
  {low}
- name: HighNodeUtilization
  {high}
"""


@pytest.mark.parametrize(("low", "high"), [
    ("enabled: true", "enabled: true"),
    ("nodeSelector: {pool: web}", "enabled: true"),
    ("nodeSelector: {pool: web}", "nodeSelector: {zone: a}"),
    ("nodeSelector: {pool: web}", "nodeSelector: {pool: web}"),
])  # fmt: skip
def test_both_on_nodes_that_may_be_the_same_are_refused_with_the_remedy(low, high):
    with pytest.raises(ConfigurationError, match="nodeSelector with the same label and different values"):
        parse_configuration(DOCUMENT.format(low=low, high=high), "c.yaml")


@pytest.mark.parametrize(("low", "high"), [
    ("nodeSelector: {pool: web}", "nodeSelector: {pool: batch}"),
    ("enabled: false", "enabled: true"),
    ("enabled: true", "enabled: false"),
])  # fmt: skip
def test_node_pools_make_both_possible(low, high):
    document = parse_configuration(DOCUMENT.format(low=low, high=high), "c.yaml")
    assert document.build_policies()
