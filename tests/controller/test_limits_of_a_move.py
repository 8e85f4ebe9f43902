"""The time limits of a move agree with each other, whatever the configuration says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from limits_of_a_move import RULES, broken_rules, time_limits

from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.times import LEAST_GATE_LIMIT_S

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
DEFAULTS = time_limits(MigrationSettings())


def test_the_defaults_agree():
    assert broken_rules(DEFAULTS) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{'+'.join(rule.less)}<={rule.more}")
def test_each_rule_can_fail(rule):
    assert broken_rules({**DEFAULTS, rule.more: 0.0})


def test_each_limit_is_compared_with_another():
    compared = {name for rule in RULES for name in (*rule.less, rule.more)}
    alone = {"gate limit before a refusal is risked", "node grace"}
    assert set(DEFAULTS) - compared == alone


@given(st.integers(int(LEAST_GATE_LIMIT_S), 3_600))
def test_every_gate_limit_that_the_configuration_takes_agrees(gate_limit_s):
    configuration = parse_configuration(f"{HEAD}reservations: {{gateLimit: {gate_limit_s}s}}\n", "c.yaml")
    limits = time_limits(MigrationSettings(reservations=configuration.reservations))
    assert limits["gate limit"] == gate_limit_s
    assert broken_rules(limits) == []


def test_a_shorter_gate_limit_is_refused_with_its_line():
    text = f"{HEAD}reservations:\n  gateLimit: 49s\n"
    with pytest.raises(ConfigurationError, match=r"c\.yaml:4.*gateLimit.*at least 50s"):
        parse_configuration(text, "c.yaml")
