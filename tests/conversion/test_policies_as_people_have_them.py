"""Policies as people keep them, of both versions: each becomes a valid configuration, or an error that says what to do."""

import pytest

from rescheduler.cli.dump_words import resolved
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.conversion.policy_conversion import convert_policy

HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
AS_AN_OPERATOR_WRITES_THEM = """
  plugins:
    balance: {disabled: null, enabled: %s}
    deschedule: {disabled: null, enabled: %s}
    filter: {disabled: null, enabled: [DefaultEvictor]}
    preevictionfilter: {disabled: null, enabled: null}
    presort: {disabled: null, enabled: null}
    sort: {disabled: null, enabled: null}
"""
BY_A_QUERY = """
  - name: LowNodeUtilization
    args:
      evictableNamespaces: {exclude: [kube-system, "openshift-*"]}
      metricsUtilization: {prometheus: {query: "instance:node_cpu:rate:sum"}, source: Prometheus}
      thresholds: {MetricResource: 10}
      targetThresholds: {MetricResource: 10}
      useDeviationThresholds: true"""
OLD_DEFAULTS = """
strategies:
  RemoveDuplicates: {enabled: true}
  RemovePodsViolatingNodeTaints: {enabled: true}
  RemovePodsViolatingNodeAffinity:
    enabled: true
    params: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
  RemovePodsViolatingInterPodAntiAffinity: {enabled: true, params: null}
  LowNodeUtilization:
    enabled: true
    params:
      nodeResourceUtilizationThresholds:
        thresholds: {cpu: 20, memory: 20, pods: 20}
        targetThresholds: {cpu: 50, memory: 50, pods: 50}
"""
OLD_NAMES = ["NodeTaints", "NodeAffinity", "InterPodAntiAffinity", "LowNodeUtilization"]


def operator(profile, config, *, balance="null", deschedule="null", top=""):
    plugins = AS_AN_OPERATOR_WRITES_THEM % (balance, deschedule)
    return f"{HEAD}{top}profiles:\n- name: {profile}\n  pluginConfig:{config}{plugins}"


def indented(text):
    return "".join(f"  {line}\n" for line in text.splitlines())


CASES = {
    "affinity and taints": (
        operator(
            "AffinityAndTaints",
            """
  - {name: RemovePodsViolatingInterPodAntiAffinity, args: {namespaces: {exclude: [a]}}}
  - {name: RemovePodsViolatingNodeTaints, args: {namespaces: {exclude: [a]}}}
  - name: RemovePodsViolatingNodeAffinity
    args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution], namespaces: {exclude: [a]}}
  - {name: DefaultEvictor, args: {ignorePvcPods: true, podProtections: {}, priorityThreshold: null}}""",
            deschedule="[RemovePodsViolatingInterPodAntiAffinity, RemovePodsViolatingNodeTaints, RemovePodsViolatingNodeAffinity]",
        ),
        {"InterPodAntiAffinity", "NodeTaints", "NodeAffinity"},
        set(),
    ),
    "topology and duplicates": (
        operator(
            "TopologyAndDuplicates",
            """
  - {name: RemovePodsViolatingTopologySpreadConstraint, args: {constraints: [DoNotSchedule], namespaces: {include: [a, b]}}}
  - {name: RemoveDuplicates, args: {namespaces: {include: [a, b]}}}
  - {name: DefaultEvictor, args: {evictLocalStoragePods: true, priorityThreshold: {name: "", value: 500}}}""",
            balance="[RemovePodsViolatingTopologySpreadConstraint, RemoveDuplicates]",
        ),
        {"TopologySpread", "Duplicates"},
        set(),
    ),
    "lifecycle and utilization": (
        operator(
            "LifecycleAndUtilization",
            """
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 86400}}
  - {name: RemovePodsHavingTooManyRestarts, args: {podRestartThreshold: 100, includingInitContainers: true}}
  - {name: LowNodeUtilization, args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, evictableNamespaces: null}}
  - {name: DefaultEvictor, args: {nodeFit: true}}""",
            balance="[LowNodeUtilization]",
            deschedule="[PodLifeTime, RemovePodsHavingTooManyRestarts]",
        ),
        {"LowNodeUtilization", "PodLifeTime", "TooManyRestarts"},
        set(),
    ),
    "long lifecycle by a query": (
        operator("LongLifecycle", BY_A_QUERY, balance="[LowNodeUtilization]", top="maxNoOfPodsToEvictTotal: 10\n"),
        set(),
        {"metricsUtilization.prometheus", 'namespaces.exclude: "openshift-*"', "maxNoOfPodsToEvictTotal: 10"},
    ),
    "virtual machines": (
        operator(
            "DevKubeVirtRelieveAndMigrate",
            f"""{BY_A_QUERY}
  - {{name: DefaultEvictor, args: {{noEvictionPolicy: Mandatory, evictLocalStoragePods: true}}}}
  - {{name: KubevirtMigrationAware, args: {{migrationCooldown: 5m0s}}}}""",
            balance="[LowNodeUtilization]",
            top="nodeSelector: kubevirt.io/schedulable=true\nmetricsProviders: [{source: Prometheus, prometheus: {url: x}}]\n",
        ),
        set(),
        {"metricsUtilization.prometheus", 'namespaces.exclude: "openshift-*"', "metricsProviders", "KubevirtMigrationAware"},
    ),
    "compact and scale": (
        operator(
            "CompactAndScale",
            """
  - {name: HighNodeUtilization, args: {thresholds: {cpu: 20, memory: 20, pods: 20}, evictableNamespaces: {exclude: [a]}}}""",
            balance="[HighNodeUtilization]",
        ),
        {"HighNodeUtilization"},
        set(),
    ),
    "defaults of old": (f"apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy{OLD_DEFAULTS}", {*OLD_NAMES, "Duplicates"}, set()),
    "values of an old chart": (f"kind: CronJob\ncmdOptions: {{v: 3}}\ndeschedulerPolicy:{indented(OLD_DEFAULTS)}", {*OLD_NAMES, "Duplicates"}, set()),
    "values without a kind": (f"cmdOptions: {{v: 3}}\ndeschedulerPolicy:{indented(OLD_DEFAULTS)}", {*OLD_NAMES, "Duplicates"}, set()),
    "strategies in the version that has none": (f"{HEAD}{OLD_DEFAULTS}", set(), {"strategies"}),
    "arguments beside args": (
        f"{HEAD}profiles: [{{pluginConfig: [{{name: DefaultEvictor, nodeFit: true}}]}}]\n", set(), {"nodeFit"}
    ),
    "nodes that are left out": (
        f"{HEAD}nodeSelector: example.com/exclude!=true\nprofiles: [{{plugins: {{deschedule: {{enabled: [RemovePodsViolatingNodeTaints]}}}}}}]\n",
        set(),
        {"nodeSelector: example.com/exclude!=true"},
    ),
}  # fmt: skip


def converted(text):
    return convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))


@pytest.mark.parametrize("name", CASES)
def test_what_is_switched_on_and_what_is_left_out(name):
    text, on, left_out = CASES[name]
    result = converted(text)
    policies = parse_configuration(result.text, "out").policies
    assert {p.name for p in policies if p.args.enabled} == on
    assert {remark.what for remark in result.remarks} == left_out
    assert all(0 < remark.line <= len(text.splitlines()) for remark in result.remarks)


def test_what_is_switched_off_says_why():
    text = converted(CASES["long lifecycle by a query"][0]).text
    assert "# the thresholds of a query are none of nodes\n  enabled: false" in text


@pytest.mark.parametrize(("text", "said"), [
    ("apiVersion: operator.openshift.io/v1\nkind: KubeDescheduler\n", "ConfigMap"),
    ("apiVersion: v1\nkind: List\nitems: []\n", "ConfigMap"),
    ("a: 1\n---\nb: 2\n", "give a DeschedulerPolicy"),
    (f"{HEAD}profiles:\n- name: a\n  pluginConfig: [{{args: {{nodeFit: true}}}}]\n", "add the name"),
])  # fmt: skip
def test_anything_else_is_an_error_with_a_remedy(text, said):
    with pytest.raises(ConfigurationError) as raised:
        converted(text)
    (problem,) = raised.value.problems
    assert (problem.file, problem.line > 0) == ("policy.yaml", True)
    assert said in str(problem)
