"""What policies name and no node has: a warning wherever the nodes are known, and never an error."""

import json

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from harness.builders import node, snapshot
from rescheduler.cli.main import main
from rescheduler.configuration.document import parse_configuration
from rescheduler.controller.cycle import UnknownNames
from rescheduler.scheduling.nodes import NodeTable

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\npolicies:\n"
LOW = "- {{name: LowNodeUtilization, thresholds: {{cpu: 20, {0}}}, targetThresholds: {{cpu: 50, {1}}}{2}}}"
HIGH = "- {{name: HighNodeUtilization, thresholds: {{{0}}}, targetThresholds: {{{1}}}{2}}}"
GPU = "example.com/gpu"
NOTHING, NO_EFFECT = "so the policy does nothing", "it changes nothing"
CASES = {
    "low": (LOW.format(f"{GPU}: 20", f"{GPU}: 50", ""), f"thresholds.{GPU}", NO_EFFECT),
    "low at 0": (LOW.format(f"{GPU}: 0", f"{GPU}: 50", ""), f"thresholds.{GPU}", NO_EFFECT),
    "low by the mean": (LOW.format(f"{GPU}: 20", f"{GPU}: 50", ", useDeviationThresholds: true"), f"thresholds.{GPU}", NO_EFFECT),
    "huge pages": (LOW.format("hugepages-2Mi: 20", "hugepages-2Mi: 50", ""), "thresholds.hugepages-2Mi", ""),
    "high": (HIGH.format(f"cpu: 20, {GPU}: 20", "cpu: 90", ""), f"thresholds.{GPU}", NOTHING),
    "high, target": (HIGH.format("cpu: 20", f"cpu: 90, {GPU}: 90", ""), f"targetThresholds.{GPU}", NO_EFFECT),
    "labels": (HIGH.format("cpu: 20", "cpu: 90", ", nodeSelector: {pool: nine}"), "nodeSelector", NOTHING),
    "another pool has it": (HIGH.format("cpu: 20, example.com/fpga: 20", "cpu: 90", ", nodeSelector: {pool: plain}"), "thresholds.example.com/fpga", NOTHING),
}  # fmt: skip
NODES = [node("n1").label(pool="plain"), node("n2").label(pool="fast").allocatable({"example.com/fpga": "2"})]


def table(nodes):
    return NodeTable(tuple(snapshot(nodes, now_s=0.0).nodes.values()))


@pytest.mark.parametrize("name", CASES)
def test_it_is_named_with_its_key_and_what_follows(name):
    text, key, effect = CASES[name]
    (said,) = parse_configuration(HEAD + text, "c.yaml").unknown_to(table(NODES))
    assert said.startswith(f"policies[0].{key} of ")
    assert "no node" in said
    assert effect in said


def test_what_a_node_has_is_not_named():
    text = HEAD + LOW.format("example.com/fpga: 20", "example.com/fpga: 50", "")
    assert parse_configuration(text, "c.yaml").unknown_to(table(NODES)) == ()
    off = HEAD + LOW.format(f"{GPU}: 20", f"{GPU}: 50", ", enabled: false")
    assert parse_configuration(off, "c.yaml").unknown_to(table(NODES)) == ()
    nine = HEAD + HIGH.format("cpu: 20", "cpu: 90", ", nodeSelector: {pool: nine}")
    assert parse_configuration(nine, "c.yaml").unknown_to(table([])) == ()


def test_plan_and_validate_warn(tmp_path):
    config, dump = tmp_path / "config.yaml", tmp_path / "dump.json"
    config.write_text(HEAD + CASES["low"][0])
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [n.manifest() for n in NODES]}))
    planned = CliRunner().invoke(main, ["plan", "-o", "json", "--config", str(config), "--from", str(dump)])
    assert any(f"thresholds.{GPU}" in w for w in json.loads(planned.stdout)["metadata"]["warnings"])
    checked = CliRunner().invoke(main, ["validate", str(config), "--from", str(dump)])
    assert (checked.exit_code, checked.stdout) == (0, f"{config}: valid\n")
    assert f"warning: {config}: policies[0].thresholds.{GPU} of LowNodeUtilization: no node" in checked.stderr


def test_the_log_has_it_once_until_it_is_over():
    with capture_logs() as lines:
        log = UnknownNames()
        for found in (("a",), ("a",), ("a", "b"), (), ("a",)):
            log.found(found)
    assert [line["problem"] for line in lines] == ["a", "b", "a"]
