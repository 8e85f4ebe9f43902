"""Policies made of one cost: what a wrong one of another package does to a decision."""

import math
import re
import sys
from pathlib import Path

import msgspec
import pytest

from harness import builders as b
from rescheduler.cli.ending import exit_code_of
from rescheduler.errors import PolicyError
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.policies.simple import SimplePolicy
from rescheduler.policies.wire import PolicyArgs
from rescheduler.scheduling.state import SchedulingState

DOCUMENT = Path(__file__).parents[2] / "examples" / "README.md"


class Quiet(SimplePolicy[PolicyArgs]):
    """Pods with a label are not wanted on a loud node."""

    name = "Quiet"
    loud = 1.0

    def cost(self, pod, node):
        return self.loud if node.labels.get("noise") == "loud" and pod.labels.get("app") == "web" else 0


def decided(policy, app):
    cluster = b.snapshot(b.node("n1").label(noise="loud"), b.node("n2"), app("web", ["n1"]))
    return plan(cluster, (policy,), PlanningInputs(limits=Limits()), SchedulingState(cluster))


def test_one_cost_is_a_policy(app):
    (move,) = decided(Quiet(PolicyArgs()), app).moves
    assert (move.target, move.policy) == ("n2", "Quiet")


def test_the_policy_of_the_documentation_does_what_it_says(app):
    (source,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    found = {"__name__": "quiet_zones"}
    exec(source, found)  # noqa: S102 - our own documentation
    kind = found["POLICY"]
    cluster = b.snapshot(b.node("n1").label(noise="loud"), b.node("n2"), app("true", ["n1"]))
    args = msgspec.convert({"quietLabel": "app", "weight": 0.9}, kind.args)
    inputs = PlanningInputs(limits=Limits())
    (move,) = plan(cluster, (kind.build(args),), inputs, SchedulingState(cluster)).moves
    assert (move.policy, move.reason, move.gain) == ("QuietZones", "TooLoud", 0.4641)
    assert move.message == "wants quiet, and node/n1 is loud"


@pytest.mark.parametrize("cost", [math.nan, math.inf, 1e30, -0.5, "1", None, [1.0]])
def test_a_cost_that_is_no_number_names_the_policy_the_pod_and_the_node(cost, app):
    class Wrong(Quiet):
        loud = cost

    said = r"policy Quiet: cost of a pod of namespace default \(.*\) on node/n1 is .*, not a number of pods"
    with pytest.raises(PolicyError, match=said):
        decided(Wrong(PolicyArgs()), app)


@pytest.mark.parametrize("method", ["cost", "group", "cost_together"])
def test_whatever_a_method_raises_names_the_policy_and_the_line(method, app):
    def raising(self, *_):
        return {}["noise"]

    wrong = type("Wrong", (Quiet,), {"group": lambda self, pod: 1, method: raising})
    said = rf"policy Quiet: {method} of a pod .* raised KeyError: 'noise' \(test_simple_policies.py:\d+\)"
    with pytest.raises(PolicyError, match=said):
        decided(wrong(PolicyArgs()), app)


@pytest.mark.parametrize("method", ["cost", "group", "cost_together"])
def test_pods_that_it_cannot_judge_stop_no_move_of_others_where_somebody_is_told(method, app):
    """As in the controller: who may label pods must not stop all decisions."""

    def raising(self, pods, *_):
        pod = pods if method != "cost_together" else pods[0]
        if pod.namespace == "broken":
            raise KeyError("noise")
        return getattr(Quiet, method)(self, pods, *_)

    told = []
    policy = type("Wrong", (Quiet,), {"group": lambda self, pod: pod.namespace, method: raising})(
        PolicyArgs()
    )
    policy.on_failure = told.append
    theirs = b.deployment("web", namespace="broken").replicas(1)
    cluster = b.snapshot(
        b.node("n1").label(noise="loud"),
        b.node("n2"),
        app("web", ["n1"]),
        theirs,
        theirs.pod("web-0").on("n1"),
    )
    found = plan(cluster, (policy,), PlanningInputs(limits=Limits()), SchedulingState(cluster))
    assert "default" in {move.pod.namespace for move in found.moves}
    assert any(f"{method} of a pod of namespace broken" in str(error) for error in told)


def test_a_method_cannot_end_the_process(app):
    def ending(self, *_):
        sys.exit(7)

    wrong = type("Wrong", (Quiet,), {"cost": ending})
    with pytest.raises(PolicyError, match=r"policy Quiet: cost of a pod .* raised SystemExit: 7 \("):
        decided(wrong(PolicyArgs()), app)


def test_a_group_that_is_no_key_is_told(app):
    wrong = type("Wrong", (Quiet,), {"group": lambda self, pod: [pod.namespace]})
    with pytest.raises(PolicyError, match=r"group of a pod .* unhashable"):
        decided(wrong(PolicyArgs()), app)


def test_a_command_says_it_in_one_line_without_a_traceback(capsys):
    def command():
        raise PolicyError("policy Quiet: cost of a pod is nan")

    assert exit_code_of(command) == 1
    assert capsys.readouterr().err == "error: policy Quiet: cost of a pod is nan\n"
