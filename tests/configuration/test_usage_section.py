"""Section ``usage`` and the arguments of LowNodeUtilization about samples: what is read, and what bad values are told."""

import pytest

from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.model.measured import UsageStatistic
from rescheduler.policies.sure_overload import AnomalyArgs

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
POLICY = "policies:\n- name: LowNodeUtilization\n  usage: actual\n  targetThresholds: {cpu: 60}\n"


def test_a_window_and_its_statistic_are_read():
    usage = parse_configuration(f"{HEAD}usage: {{window: 24h, statistic: p95}}\n", "c.yaml").usage
    assert (usage.window_s, usage.statistic) == (86_400.0, UsageStatistic.P95)


def test_samples_and_where_relief_begins_are_read():
    text = (
        f"{HEAD}{POLICY}  startThresholds: {{cpu: 80}}\n  anomaly: {{samples: 3, of: 5}}\n  statistic: p95\n"
    )
    (policy,) = parse_configuration(text, "c.yaml").policies
    assert (policy.args.start_thresholds, policy.args.anomaly) == ({"cpu": 80.0}, AnomalyArgs(3, 5))
    assert policy.args.statistic is UsageStatistic.P95


def told(text):
    with pytest.raises(ConfigurationError) as error:
        parse_configuration(HEAD + text, "c.yaml")
    return str(error.value)


@pytest.mark.parametrize(("text", "expected"), [
    ("usage: {window: 10s}\n", "c.yaml:3: usage.window: is 10s (must be at least 2m)"),
    ("usage: {window: 720h}\n", "c.yaml:3: usage.window: is 720h (must be at most 168h)"),
    ("usage:\n  statistic: p42\n", "c.yaml:4: usage.statistic: "),
    ("usage:\n  windows: 5m\n", "c.yaml:4: usage.windows: unknown key; did you mean window?"),
    ("usage:\n  prometheus:\n    url: prometheus:9090\n",
        "c.yaml:5: usage.prometheus.url: is 'prometheus:9090' (write https://HOST or https://HOST:PORT/PREFIX, without a query)"),
    ("usage:\n  prometheus:\n    url: http://p\n    bearerTokenFile: /t\n",
        "c.yaml:5: usage.prometheus.url: would send credentials in the clear (write https://, or leave the credentials out)"),
    ("usage:\n  prometheus: {url: https://p, username: a}\n",
        "c.yaml:4: usage.prometheus: passwordFile is missing (basic authentication needs username and passwordFile)"),
    ("usage:\n  prometheus: {url: https://p, username: a, passwordFile: /p, bearerTokenFile: /t}\n",
        "c.yaml:4: usage.prometheus.bearerTokenFile: is given beside username (keep one of them)"),
    ("usage:\n  prometheus:\n    queries: {nodeCPU: up}\n", "c.yaml:5: usage.prometheus.queries.nodeCPU: unknown key; did you mean nodeCpu?"),
    (f"{POLICY}  anomaly: {{samples: 6, of: 5}}\n", "c.yaml:7: policies[0].anomaly.samples: is 6, more than the 5 of `of`"),
    (f"{POLICY}  anomaly: {{samples: 6, of: 60}}\n", "c.yaml:7: policies[0].anomaly.of: is 60 (must be at most 48)"),
    (f"{POLICY}  anomaly: {{samples: 0, of: 5}}\n", "c.yaml:7: policies[0].anomaly.samples: "),
    (f"{POLICY}  startThresholds: {{cpu: 50}}\n", "c.yaml:7: policies[0].startThresholds.cpu: is 50, below its targetThreshold 60"),
    (f"{POLICY}  startThresholds: {{memory: 50}}\n",
        "c.yaml:7: policies[0].startThresholds.memory: has no targetThreshold, where relief would end: add one"),
    (f"{POLICY.replace('actual', 'requests')}  anomaly: {{samples: 3, of: 5}}\n",
        "c.yaml:7: policies[0].anomaly: counts samples, and requests have none: set usage: actual"),
    (f"{POLICY.replace('actual', 'requests')}  statistic: p95\n",
        "c.yaml:7: policies[0].statistic: counts samples, and requests have none: set usage: actual"),
    (f"{POLICY}  statistic: p98\n", "c.yaml:7: policies[0].statistic: "),
])  # fmt: skip
def test_a_bad_value_is_told_with_file_line_and_remedy(text, expected):
    assert expected in told(text)
