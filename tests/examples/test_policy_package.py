"""The example of a policy in a package of its own: built, installed, named in a configuration, planned with."""

import importlib
import os
import subprocess
import sys
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from harness import builders as b
from rescheduler.configuration import policies_section
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.model.names import HOSTNAME
from rescheduler.planning.planner import plan
from rescheduler.policies.node_taints import NodeTaints, NodeTaintsArgs
from rescheduler.policies.registry import INTERFACE, PolicyType
from rescheduler.policies.wire import PolicyArgs
from rescheduler.scheduling.state import SchedulingState

pytest.importorskip("hatchling", reason="hatchling is not installed: make install")

EXAMPLE = Path(__file__).parents[2] / "examples" / "noisy_neighbours"
DOCUMENT = """
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
policies:
- name: NodeTaints
- name: NoisyNeighbours
  noisyLabel: loud
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the example as pip would install it, made without any network."""
    out, folder = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    build = f"import hatchling.build as b; b.build_wheel({str(out)!r})"
    subprocess.run(
        [sys.executable, "-c", build], cwd=EXAMPLE, env=dict(os.environ), check=True, capture_output=True
    )
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return folder


@pytest.fixture
def installed(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    yield site
    sys.modules.pop("rescheduler_noisy_neighbours", None)


def test_a_configuration_names_it_with_its_own_arguments(installed):
    configuration = parse_configuration(DOCUMENT, "c.yaml")
    taints, noisy, _ = configuration.build_policies()
    assert (taints.name, noisy.name) == ("NodeTaints", "NoisyNeighbours")
    assert noisy.args.noisy_label == "loud"
    assert "NoisyNeighbours" in policies_section.policy_names()


def test_its_arguments_are_checked(installed):
    with pytest.raises(ConfigurationError, match="noisylabel"):
        parse_configuration(DOCUMENT.replace("noisyLabel", "noisylabel"), "c.yaml")


def test_it_spreads_noisy_pods(installed, app):
    policies = parse_configuration(DOCUMENT, "c.yaml").build_policies()
    nodes = [b.node(f"n{i}").label({HOSTNAME: f"n{i}"}) for i in range(3)]
    owner = b.replicaset("web").replicas(3).cpu("100m").set("spec.template.metadata.labels.loud", "true")
    pods = [owner.pod(f"web-{i}").label(loud="true").on("n0") for i in range(3)]
    cluster = b.snapshot(*nodes, owner, *pods)
    inputs = parse_configuration(DOCUMENT, "c.yaml").inputs(unlimited=True)
    state = SchedulingState(cluster)
    made = plan(cluster, policies, inputs, state)
    assert sorted(move.target for move in made.moves) == ["n1", "n2"]
    assert {(m.policy, m.reason) for m in made.moves} == {("NoisyNeighbours", "NoisyNeighbour")}
    assert made.moves[0].message == "shares node/n0 with another noisy pod"


def test_without_the_package_the_name_is_unknown():
    with pytest.raises(ConfigurationError, match="unknown policy 'NoisyNeighbours'"):
        parse_configuration(DOCUMENT, "c.yaml")


def offered(monkeypatch, found, name="Other"):
    """As if one installed package offered this object."""
    point = EntryPoint(name, "other:POLICY", policies_section.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: found() if callable(found) else found)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [point])


def broken():
    raise SyntaxError("half a file")


def ending(*_):
    sys.exit(7)


def without_licence(_):
    raise OSError("no licence")


class NeedsATeam(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    team_name: str


class Puzzled(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    def problems(self):
        return [None]


@pytest.mark.parametrize(("found", "words"), [
    (PolicyType("Other", NodeTaintsArgs, NodeTaints, interface=INTERFACE + 1), "is written for interface 2"),
    (PolicyType("Else", NodeTaintsArgs, NodeTaints), "is named 'Else'"),
    (7, "is no PolicyType"),
    (broken, "cannot be imported"),
    (ending, r"cannot be imported \(SystemExit: 7\)"),
    (PolicyType("Other", NodeTaintsArgs, without_licence), r"policies\[1\]: policy Other cannot be made of these arguments: it raised OSError: no licence \(test_"),
    (PolicyType("Other", NodeTaintsArgs, ending), "cannot be made .* raised SystemExit: 7"),
    (PolicyType("Other", Puzzled, NodeTaints), "cannot be made .* raised TypeError: "),
    (PolicyType("Other", NeedsATeam, NodeTaints), r"policies\[1\]: 'teamName' is missing \(add 'teamName:'\)"),
])  # fmt: skip
def test_what_cannot_be_used_is_a_problem_of_the_configuration(monkeypatch, found, words):
    offered(monkeypatch, found)
    with pytest.raises(ConfigurationError, match=words):
        parse_configuration(DOCUMENT.replace("NoisyNeighbours\n  noisyLabel: loud", "Other"), "c.yaml")


def test_a_name_of_ours_is_never_taken_over(monkeypatch):
    offered(monkeypatch, broken, name="NodeTaints")
    assert policies_section.policy_type("NodeTaints").build is NodeTaints
