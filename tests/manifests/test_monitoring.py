"""promtool takes the alerts, the panels' queries and the metrics."""

import json
import subprocess

import pytest
import yaml

from harness.controlplane.manifests import FOLDER
from harness.strangers.build import find
from harness.strangers.tools import PROMTOOL
from rescheduler.controller.metrics import Metrics

pytestmark = pytest.mark.realcluster


@pytest.fixture(scope="module")
def promtool():
    return str(find(PROMTOOL))


def expressions():
    document = json.loads((FOLDER / "monitoring" / "dashboard.json").read_text())
    return [target["expr"] for panel in document["panels"] for target in panel.get("targets", ())]


def checked(promtool, *words, **more):
    done = subprocess.run(
        [promtool, "check", *words], capture_output=True, text=True, check=False, timeout=60, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_are_rules(promtool, tmp_path):
    rule = yaml.safe_load((FOLDER / "monitoring" / "prometheusrule.yaml").read_text())
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rule["spec"]))
    checked(promtool, "rules", "--lint=all", "--lint-fatal", str(file))


def test_the_queries_of_the_dashboard_are_promql(promtool, tmp_path):
    rules = [{"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(expressions())]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert rules
    checked(promtool, "rules", str(file))


def test_the_metrics_are_named_and_written_as_prometheus_wants_them(promtool):
    checked(promtool, "metrics", input=Metrics().render().decode())
