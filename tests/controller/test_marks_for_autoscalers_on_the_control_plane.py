"""What ``consolidate`` writes on nodes for cluster-autoscaler and Karpenter, on the real control plane, with the rights of a person.

The autoscalers are not there: what they go by is known from their documentation (docs/how-to/consolidate.md). Here the API
server, its validation and rights, and kube-scheduler are the real ones.
"""

import secrets
import time

import pytest
from click.testing import CliRunner

from harness.controlplane.world import PATIENCE_S, WORLD, node_of
from rescheduler.cli.main import main

pytestmark = pytest.mark.realcluster

RBAC = "rbac.authorization.k8s.io"
LABEL = "rescheduler.dev/consolidation"
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
FINALIZER = "karpenter.sh/termination"
DRAINS = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
]
"""What ``kubectl drain`` needs besides ClusterRole ``view``."""
OWN_RIGHTS = True
CONFIGURATION = {"leaderElection": {"enabled": True}}
DELETES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}


@pytest.fixture
def person(control_plane, world):
    """Makes somebody with the documented rights, and more, and returns what runs a command line as that person."""
    api = control_plane.api()
    made = []

    def make(*roles, rules=()):
        account = f"person-{secrets.token_hex(3)}"
        world.account(account)
        path = f"/apis/{RBAC}/v1/clusterroles"
        role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": account}}
        api.create(path, {**role, "rules": [*DRAINS, *rules]}).expect(201)
        made.append(f"{path}/{account}")
        granted = (account, "view", "rescheduler-operator", *roles)
        made.extend(world.bind(each, account, everywhere=True) for each in granted)
        kubeconfig = str(control_plane.kubeconfig_for(world.namespace, account))
        world.wait(
            lambda: CliRunner().invoke(main, ["reserve", "list", "--kubeconfig", kubeconfig]).exit_code == 0
        )
        return lambda *words: CliRunner().invoke(main, [*words, "--kubeconfig", kubeconfig])

    yield make
    for path in made:
        api.delete(path)


def node(world, name):
    return world.api.get(f"/api/v1/nodes/{name}").expect().body


def ours(found):
    """The taints besides those of the test's world and those that Kubernetes sets by itself."""
    taints = found["spec"].get("taints", ())
    return {
        (t["key"], t["effect"]) for t in taints if not t["key"].startswith(("node.kubernetes.io/", WORLD))
    }


def pool(world, count):
    """So many nodes, with one pod on the first."""
    names = [world.node(f"n{i}", cpu="4", labels={"pool": world.namespace}) for i in range(count)]
    world.running("Deployment", "web", 1)
    return names


def test_a_node_with_the_mark_of_cluster_autoscaler_is_used_last_and_given_back(controller, world, person):
    run = person()
    names = pool(world, 2)
    for name in names:
        world.taint(name, "example.com/mine", effect="PreferNoSchedule")
    before_s = int(time.time())
    words = (
        "consolidate", "--pool", f"pool={world.namespace}", "--nodes", "1", "--then", "cluster-autoscaler",
    )  # fmt: skip
    done = run(*words)
    assert done.exit_code == 0, done.output
    (gone,) = (name for name in names if f"node/{name} emptied, marked for cluster-autoscaler" in done.stdout)
    (kept,) = set(names) - {gone}
    found = node(world, gone)
    assert ours(found) == {("example.com/mine", "PreferNoSchedule"), (CANDIDATE, "PreferNoSchedule")}
    (mark,) = (t for t in found["spec"]["taints"] if t["key"] == CANDIDATE)
    assert before_s <= int(mark["value"]) <= time.time(), "epoch seconds, as cluster-autoscaler reads them"
    assert found["metadata"]["labels"][LABEL] == "Emptied"
    assert "unschedulable" not in found["spec"]
    # It is not chosen a second time.
    again = run(*words)
    assert (again.exit_code, f"{gone}: it is empty, and marked for cluster-autoscaler" in again.stderr) == (
        1,
        True,
    )
    # kube-scheduler prefers the other node, and uses this one before a pod waits.
    world.workload("Deployment", "more", 2)
    assert {node_of(pod) for pod in world.wait_ready("more", 2)} == {kept}
    world.workload("Deployment", "big", 1, cpu="3")
    assert {node_of(pod) for pod in world.wait_ready("big", 1)} == {gone}
    freed = run("uncordon", "-l", LABEL)
    assert (freed.exit_code, freed.stdout) == (0, f"node/{gone} uncordoned\n"), freed.output
    found = node(world, gone)
    assert ours(found) == {("example.com/mine", "PreferNoSchedule")}
    assert LABEL not in found["metadata"]["labels"]


def test_karpenter_gets_the_node_by_its_deletion(controller, world, person):
    names = pool(world, 2)
    words = ("consolidate", "--pool", f"pool={world.namespace}", "--nodes", "1", "--then", "karpenter")
    refused = person()(*words)
    assert (refused.exit_code, "no finalizer karpenter.sh/termination" in refused.stderr) == (1, True)
    for name in names:
        world.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"finalizers": [FINALIZER]}}).expect()
    try:
        # Without the right to delete nodes the node is emptied and stays cordoned, and the missing right is named.
        without = person()(*words)
        assert without.exit_code != 0
        assert "--then karpenter needs the right to delete nodes" in without.stderr
        (empty,) = (name for name in names if node(world, name)["spec"].get("unschedulable"))
        assert person()("uncordon", empty).exit_code == 0
        run = person(rules=[DELETES])
        done = run(*words)
        assert done.exit_code == 0, done.output
        assert f"node/{empty} emptied, deleted: Karpenter takes it away" in done.stdout
        found = node(world, empty)
        assert found["metadata"]["deletionTimestamp"]
        assert found["spec"]["unschedulable"]
        late = run("uncordon", "-l", LABEL)
        assert late.stdout == f"node/{empty} is being deleted: it does not come back\n"
    finally:
        for name in names:
            world.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"finalizers": None}})
    world.wait(lambda: world.api.get(f"/api/v1/nodes/{empty}").status == 404, PATIENCE_S)


def test_a_node_that_cluster_autoscaler_must_not_remove_stays(world, person):
    names = pool(world, 2)
    key = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
    for name in names:
        world.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {key: "true"}}}).expect()
    words = ("consolidate", "--pool", f"pool={world.namespace}", "--plan")
    shown = person()(*words)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count(f"annotation {key}") == 2
    # view does not read everything that a plan looks at: that is told in one line, with the role that does.
    unread = [line for line in shown.stderr.splitlines() if "may not be read" in line]
    assert len(unread) == 1, shown.stderr
    assert "storageclasses.storage.k8s.io" in unread[0]
    assert "ClusterRole rescheduler-read gives the right" in unread[0]
    everything = person("rescheduler-read")(*words)
    assert everything.exit_code == 0
    assert "may not be read" not in everything.stderr
