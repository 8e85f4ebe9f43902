"""The ready-made configuration documents are valid, and the registry's defaults too."""

from pathlib import Path

import pytest

from rescheduler.configuration.document import parse_configuration
from rescheduler.policies.registry import REGISTRY
from rescheduler.policies.wire import LabelExpressionArgs, LabelSelectorArgs

FOLDER = Path(__file__).parents[2] / "policies"


@pytest.mark.parametrize("name", ["conservative", "balanced", "aggressive", "consolidate", "violations-only"])
def test_documents(name):
    path = FOLDER / f"{name}.yaml"
    configuration = parse_configuration(path.read_text(), path.name)
    assert configuration.build_policies()


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_defaults_are_valid(name):
    kind = REGISTRY[name]
    assert kind.problems(kind.args()) == ()
    assert kind.build(kind.args()).name == name


def test_common_arguments_are_checked():
    args = REGISTRY["NodeTaints"].args(
        node_selector={"a/b/c": "d"},
        label_selector=LabelSelectorArgs(match_expressions=(LabelExpressionArgs("k", "Equals", ("v",)),)),
    )
    assert {where for where, _ in args.problems()} == {("nodeSelector",), ("labelSelector",)}


@pytest.mark.parametrize(("operator", "values"), [("In", ()), ("Exists", ("a",))])
def test_operators_and_their_values(operator, values):
    args = LabelSelectorArgs(match_expressions=(LabelExpressionArgs("k", operator, values),))
    assert "values" in args.compiled().invalid
