"""The Helm chart has the objects that kustomize makes of ``manifests/``, for each overlay and component."""

import json
import os
import re
import subprocess

import pytest
import yaml

from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from tests.packaging.image import ROOT
from tests.seeds import some

pytestmark = pytest.mark.realcluster

CHART = ROOT / "charts" / "rescheduler"
KUBERNETES = "1.37.0"
HEAD = {"apiVersion": "rescheduler.dev/v1alpha1", "kind": "ReschedulerConfiguration"}
CONFIGURATIONS = sorted(
    path
    for folder in ("examples", "policies", "manifests")
    for path in (ROOT / folder).rglob("*.yaml")
    if "kind: ReschedulerConfiguration" in path.read_text() and "kind: ConfigMap" not in path.read_text()
)


@pytest.fixture(scope="module")
def render(programs):
    def run(*values, namespace="rescheduler", kubernetes=KUBERNETES, more=()):
        words = [
            word for value in ("namespace.create=true", *values) for word in ("--set-json", _json(value))
        ]
        line = [programs[0], "template", "rescheduler", str(CHART), "--namespace", namespace]
        return subprocess.run(
            [*line, "--kube-version", kubernetes, *words, *more],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture(scope="module")
def kustomize(programs, tmp_path_factory):
    def run(*resources, components=()):
        folder = tmp_path_factory.mktemp("overlay")
        document = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(ROOT / "manifests" / each, folder) for each in resources],
            "components": [
                os.path.relpath(ROOT / "manifests/components" / each, folder) for each in components
            ],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
        line = [programs[1], "kustomize", str(folder)]
        return subprocess.run(line, capture_output=True, text=True, check=True, timeout=120).stdout

    return run


def _json(value):
    return value if re.search(r"=(true|false|null|[\[{\"])", value) else value.replace("=", '="', 1) + '"'


def objects(text):
    """By kind and name. Line breaks in folded expressions are written differently by kustomize, and mean nothing in CEL."""
    found = [each for each in yaml.safe_load_all(text) if each]
    keys = [(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in found]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, map(plain, found), strict=True))


def plain(value):
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return re.sub(r"\s*\n\s*", "\n", value) if isinstance(value, str) else value


def rendered(done):
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


@pytest.mark.parametrize(("values", "resources", "components"), [
    ((), ("base",), ()),
    (("dryRun=true",), ("overlays/dry-run",), ()),
    (("highlyAvailable=true",), ("overlays/ha",), ()),
    (("highlyAvailable=true", "webhook=true"), ("overlays/webhook",), ()),
    (("highlyAvailable=true", "guard=true"), ("overlays/guard",), ()),
    (("webhook=true", "guard=true"), ("base",), ("webhook", "guard")),
    (("responder=true",), ("base",), ("responder",)),
    (("startFirst=true",), ("base",), ("start-first",)),
    (("dryRunCreation=false",), ("base",), ("no-dry-run-creation",)),
    (("networkPolicy=true",), ("base",), ("network-policy",)),
    (("monitoring=true",), ("base", "monitoring"), ()),
], ids=str)  # fmt: skip
def test_the_objects_are_those_of_kustomize(render, kustomize, values, resources, components):
    ours = rendered(render(*values, more=("--no-hooks",)))
    theirs = objects(kustomize(*resources, components=components))
    assert ours.keys() == theirs.keys()
    assert {key for key in ours if ours[key] != theirs[key]} == set()


def test_a_replica_that_serves_webhooks_answers_until_it_is_out_of_the_service(render):
    for values, seconds in (((), None), (("guard=true",), 5), (("webhook=true",), 5)):
        found = rendered(render(*values))["Deployment", "rescheduler", "rescheduler"]
        pod = found["spec"]["template"]["spec"]
        hook = pod["containers"][0].get("lifecycle", {}).get("preStop", {})
        assert hook.get("sleep", {}).get("seconds") == seconds
        assert pod["terminationGracePeriodSeconds"] >= 20 + (seconds or 0)


def test_the_configuration_and_the_deployment_are_those_of_the_values(render):
    found = rendered(
        render(
            'configuration={"aggressiveness":"balanced","policies":[{"name":"NodeTaints"}]}',
            'image={"repository":"registry.example/rescheduler","tag":"1.2.3"}',
            'nodeSelector={"pool":"system"}',
            'imagePullSecrets=[{"name":"pull"}]',
        )
    )
    document = found["ConfigMap", "rescheduler", "rescheduler"]["data"]["config.yaml"]
    assert parse_configuration(document, "values").aggressiveness == 0.5
    pod = found["Deployment", "rescheduler", "rescheduler"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/rescheduler:1.2.3"
    assert (pod["nodeSelector"], pod["imagePullSecrets"]) == ({"pool": "system"}, [{"name": "pull"}])


def test_the_pod_of_helm_test_is_that_of_the_values(render):
    done = render('image={"repository":"registry.example/r","tag":"1.2.3"}', 'nodeSelector={"pool":"system"}')
    pod = rendered(done)["Pod", "rescheduler", "rescheduler-validate"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["containers"][0]["image"] == "registry.example/r:1.2.3"
    assert pod["spec"]["nodeSelector"] == {"pool": "system"}


def test_the_controller_is_a_critical_pod_unless_the_values_say_otherwise(render):
    def classes(*values):
        pod = rendered(render(*values))["Deployment", "rescheduler", "rescheduler"]["spec"]["template"][
            "spec"
        ]
        return pod.get("priorityClassName")

    assert classes() == "system-cluster-critical"
    assert classes("priorityClassName=mine") == "mine"
    assert classes('priorityClassName=""') is None


@pytest.mark.parametrize("prefix", ["https://wiki.corp/r", "http://wiki/"])
def test_alerts_link_to_where_the_documentation_is_served(render, prefix):
    found = rendered(render("monitoring=true", f'runbookUrlPrefix="{prefix}"'))
    groups = found["PrometheusRule", "rescheduler", "rescheduler"]["spec"]["groups"]
    links = {
        rule["annotations"]["runbook_url"].partition("#")[0] for group in groups for rule in group["rules"]
    }
    assert links == {f"{prefix.rstrip('/')}/troubleshooting.md"}


def test_the_namespace_is_that_of_the_release_unless_the_chart_is_to_make_it(render):
    found = rendered(render("namespace.create=false"))
    assert ("Namespace", "", "rescheduler") not in found


@pytest.mark.parametrize(("values", "said"), [
    (("replicas=3",), "replicas"),
    (('dryRun="yes"',), "dryRun"),
    (('image={"repository":"a"}', 'image.tag=""'), "tag"),
    (("image=null",), "image"),
    (("runbookUrlPrefix=null",), "runbookUrlPrefix"),
    (('runbookUrlPrefix="docs/"',), "runbookUrlPrefix"),
    (('namespace="x"',), "namespace"),
    (('nodeSelector={"a":1}',), "nodeSelector/a"),
    (('tolerations=["x"]',), "tolerations/0"),
    (('imagePullSecrets=[{"nam":"a"}]',), "name"),
], ids=str)  # fmt: skip
def test_values_that_mean_nothing_are_refused(render, values, said):
    done = render(*values)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize(
    "value", ["configuration", "namespace", "dryRunCreation", "resources", "tolerations"]
)
def test_a_value_that_is_left_empty_is_that_of_the_chart(render, value):
    """``configuration:`` with each line below it commented out."""
    bare = "namespace.create=false"
    assert rendered(render(bare, f"{value}=null")) == rendered(render(bare))


def scheduler(**fields):
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {"schedulerConfiguration": {**head, **fields}}


@pytest.mark.parametrize("age", some(["10m", "600s", "9m60s", "1h", "0.5h", "600000ms", "720h"], 3))
def test_a_duration_that_is_long_enough_is_taken(render, age):
    entry = {"name": "PodLifeTime", "maxAge": age}
    parse_configuration(yaml.safe_dump({**HEAD, "policies": [entry]}), "values")
    done = render(f"configuration={json.dumps({'policies': [entry]})}")
    assert done.returncode == 0, done.stderr


def test_a_scheduler_configuration_is_taken(render):
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 2}]}}
    given = scheduler(parallelism=8, profiles=[{"schedulerName": "default-scheduler", "plugins": plugins}])
    parse_configuration(yaml.safe_dump({**HEAD, **given}), "values")
    done = render(f"configuration={json.dumps(given)}")
    assert done.returncode == 0, done.stderr


REFUSED = [
    ({"aggresiveness": 0.3}, "aggresiveness"),
    ({"aggressiveness": 3}, "aggressiveness"),
    ({"aggressiveness": "0,3"}, "aggressiveness"),
    ({"mode": "Hard"}, "mode"),
    ({"interval": 60}, "interval"),
    ({"limits": {"perNode": -1}}, "perNode"),
    ({"limits": {"perNod": 1}}, "perNod"),
    ({"server": {"port": 70000}}, "port"),
    ({"server": {"page": "yes"}}, "page"),
    ({"policies": [{"name": "NodeTains"}]}, "policies"),
    ({"policies": [{}]}, "name"),
    ({"policies": [{"name": "NodeTaints", "threshold": 1}]}, "threshold"),
    ({"policies": [{"name": "NodeTaints", "enabled": "no"}]}, "enabled"),
    ({"policies": "NodeTaints"}, "policies"),
    ({"protections": {"minAge": 5}}, "minAge"),
    ({"protections": {"minAge": "1y"}}, "minAge"),
    ({"protections": {"minAge": "-5m"}}, "minAge"),
    ({"policies": [{"name": "LowNodeUtilization", "targetThresholds": {"cpu": 200}}]}, "cpu"),
    ({"policies": [{"name": "NodeTaints", "labelSelector": {"matchLabels": {"a b": "c"}}}]}, "a b"),
    ({"policies": [{"name": "NodeTaints", "nodeSelector": {"a=": "c"}}]}, "a="),
    ({"policies": [{"name": "NodeTaints", "namespaces": {"include": ["Shop"]}}]}, "Shop"),
    ({"gate": {"mode": "None"}}, "mode"),
    ({"reservations": {"ttl": "1 hour"}}, "ttl"),
    ({"guard": {"enabled": "yes"}}, "enabled"),
    ({"apiVersion": "v1"}, "apiVersion"),
    ({"kind": "DeschedulerPolicy"}, "kind"),
    ({"interval": "0s"}, "interval"),
    ({"interval": "500ms"}, "interval"),
    ({"limits": {"movesPerHour": 1000001}}, "movesPerHour"),
    ({"reservations": {"ttl": "0s"}}, "ttl"),
    ({"policies": [{"name": "LowNodeUtilization", "thresholds": {}}]}, "thresholds"),
    ({"policies": [{"name": "HighNodeUtilization", "thresholds": {"gpu": 30}}]}, "gpu"),
    ({"policies": [{"name": "NodeTaints", "includedTaints": ["a"], "excludedTaints": ["b"]}]}, "policies/0"),
    (
        {"policies": [{"name": "NodeTaints", "namespaces": {"include": ["a"], "exclude": ["b"]}}]},
        "namespaces",
    ),
    (
        {
            "policies": [
                {
                    "name": "NodeTaints",
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
                }
            ]
        },
        "matchExpressions",
    ),
    (
        {
            "policies": [
                {
                    "name": "NodeTaints",
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                }
            ]
        },
        "matchExpressions",
    ),
    (
        {
            "policies": [
                {
                    "name": "NodeTaints",
                    "labelSelector": {
                        "matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]
                    },
                }
            ]
        },
        "matchExpressions",
    ),
    ({"policies": [{"name": "NodeTaints", "labelSelector": {"matchLabels": {"a": "b c"}}}]}, "matchLabels/a"),
    ({"policies": [{"name": "NodeTaints"}, {"name": "NodeTaints"}]}, "policies"),
    ({"profiles": [{"name": "a", "policies": []}, {"name": "a", "policies": []}]}, "profiles"),
    ({"profiles": [{"name": "A b", "policies": []}]}, "name"),
    ({"profiles": []}, "profiles"),
    ({"profiles": [{"name": "a", "policies": []}], "policies": [{"name": "NodeTaints"}]}, "configuration"),
    ({"schedulerConfiguration": {"apiVersion": "v1", "kind": "Pod"}}, "schedulerConfiguration"),
    ({"schedulerConfiguration": "x"}, "schedulerConfiguration"),
    (scheduler(parallelism=0), "parallelism"),
    (scheduler(paralelism=8), "paralelism"),
    (scheduler(percentageOfNodesToScore=101), "percentageOfNodesToScore"),
    (scheduler(podInitialBackoffSeconds=0), "podInitialBackoffSeconds"),
    (scheduler(clientConnection={"burst": -1}), "burst"),
    (scheduler(extenders=[{}]), "extenders"),
    (scheduler(profiles=[{"plugins": {"score": {"enabled": [{"name": "NodeFit"}]}}}]), "score"),
    (scheduler(profiles=[{"pluginConfig": [{"name": "NodeFit"}]}]), "pluginConfig"),
    ({"policies": [{"name": "PodLifeTime", "maxAge": "9m"}]}, "maxAge"),
    ({"policies": [{"name": "PodLifeTime", "maxAge": "599.5s"}]}, "maxAge"),
    ({"policies": [{"name": "WorkloadSpread", "weight": 0}]}, "weight"),
    ({"policies": [{"name": "HighNodeUtilization", "defaultPrice": 0}]}, "defaultPrice"),
    ({"policies": [{"name": "LowNodeUtilization", "anomaly": {"samples": 3, "of": 49}}]}, "of"),
    ({"guard": {"limit": "9s"}}, "limit"),
    ({"profiles": [{"name": "a"}]}, "policies"),
    ({"profiles": [{"policies": []}]}, "name"),
    ({"profiles": [{"name": "a", "policies": [{"name": "NodeTains"}]}]}, "profiles"),
    ({"profiles": [{"name": "a", "policies": [], "protections": {"minAge": 5}}]}, "minAge"),
    ({"profiles": [{"name": "a", "policies": [{"name": "PodLifeTime", "age": "1h"}]}]}, "age"),
    (
        {
            "profiles": [
                {"name": "a", "policies": [{"name": "LowNodeUtilization"}]},
                {"name": "b", "nodeSelector": {"p": "b"}, "policies": [{"name": "HighNodeUtilization"}]},
            ]
        },
        "both on for the same nodes",
    ),
    (
        {"policies": [{"name": "LowNodeUtilization"}, {"name": "HighNodeUtilization"}]},
        "both on for the same nodes",
    ),
    (
        {
            "policies": [
                {"name": "LowNodeUtilization", "nodeSelector": {"pool": "a"}},
                {"name": "HighNodeUtilization"},
            ]
        },
        "both on for the same nodes",
    ),
]


@pytest.mark.parametrize(("configuration", "said"), REFUSED, ids=str)
def test_what_is_refused_before_it_is_installed_the_program_refuses(configuration, said):
    with pytest.raises(ConfigurationError):
        parse_configuration(yaml.safe_dump({**HEAD, **configuration}), "values")


@pytest.mark.parametrize(("configuration", "said"), some(REFUSED, 6), ids=str)
def test_a_configuration_that_the_program_refuses_is_refused_before_it_is_installed(
    render, configuration, said
):
    done = render(f"configuration={json.dumps(configuration)}")
    assert done.returncode != 0
    assert said in done.stderr


def test_profiles_are_values_like_others(render):
    entries = ({"name": "LowNodeUtilization"}, {"name": "HighNodeUtilization"})
    profiles = [
        {"name": pool, "nodeSelector": {"pool": pool}, "protections": {"minAge": "1h"}, "policies": [entry]}
        for pool, entry in zip("ab", entries, strict=True)
    ]
    done = render(f"configuration={json.dumps({'profiles': profiles})}")
    assert done.returncode == 0, done.stderr
    found = {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(done.stdout) if o}
    document = yaml.safe_load(found["ConfigMap", "rescheduler"]["data"]["config.yaml"])
    assert document["profiles"] == profiles
    parse_configuration(yaml.safe_dump(document), "values")


@pytest.mark.parametrize("port", [0, 9000])
def test_a_port_that_the_probes_do_not_ask_is_refused(render, port):
    done = render(f'configuration={{"server":{{"port":{port}}}}}')
    assert done.returncode != 0
    assert f"configuration.server.port: {port}" in done.stderr
    rendered(render('configuration={"server":{"port":8080,"page":true}}'))


def test_policies_that_fill_and_empty_other_nodes_are_installed(render):
    policies = [
        {"name": "LowNodeUtilization", "nodeSelector": {"pool": "a"}},
        {"name": "HighNodeUtilization", "nodeSelector": {"pool": "b"}},
    ]
    rendered(render(f"configuration={json.dumps({'policies': policies})}"))
    policies[0] = {"name": "LowNodeUtilization", "enabled": False}
    rendered(render(f"configuration={json.dumps({'policies': policies})}"))


def test_a_number_that_is_set_on_the_command_line_is_a_number(render):
    found = rendered(render(more=("--set", "configuration.aggressiveness=0.3")))
    document = found["ConfigMap", "rescheduler", "rescheduler"]["data"]["config.yaml"]
    assert parse_configuration(document, "values").aggressiveness == 0.3


@pytest.mark.parametrize("path", some(CONFIGURATIONS, 2), ids=lambda path: path.name)
def test_a_configuration_that_the_program_takes_is_installed(render, path):
    document = yaml.safe_load(path.read_text())
    rendered(render(f"configuration={json.dumps(document, default=str)}"))


def test_before_kubernetes_1_36_it_is_said_which_value_to_set(render):
    refused = render(kubernetes="1.35.2")
    assert refused.returncode != 0
    assert "Kubernetes v1.35.2" in refused.stderr
    assert "--set webhook=true" in refused.stderr
    for value in ("webhook=true", "dryRun=true", 'configuration={"mode":"Soft"}'):
        assert render(value, kubernetes="1.35.2").returncode == 0


def test_another_namespace_is_refused_with_the_reason(render):
    done = render(namespace="elsewhere")
    assert done.returncode != 0
    assert "install with --namespace rescheduler" in done.stderr
