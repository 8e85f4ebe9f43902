"""Each plugin of descheduler becomes a policy with the same meaning, or a remark that names its line and says why not."""

import pytest

from rescheduler.cli.dump_words import resolved
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.conversion.policy_conversion import convert_policy
from rescheduler.planning.failed_pods import FailedPods
from rescheduler.policies.wire import NamespaceFilter

PLUGINS = (
    "RemoveDuplicates",
    "LowNodeUtilization",
    "HighNodeUtilization",
    "RemovePodsViolatingInterPodAntiAffinity",
    "RemovePodsViolatingNodeAffinity",
    "RemovePodsViolatingNodeTaints",
    "RemovePodsViolatingTopologySpreadConstraint",
    "RemovePodsHavingTooManyRestarts",
    "PodLifeTime",
    "RemoveFailedPods",
)
"""All that descheduler 0.36 registers."""


def converted(text):
    return convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))


def one_plugin(name, arguments="{}", *, top=""):
    return f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
{top}
profiles:
- name: p
  pluginConfig:
  - name: {name}
    args: {arguments}
  plugins:
    balance:
      enabled: [{name}]
"""


def one_strategy(name, params="{}", *, top=""):
    return f"""\
apiVersion: descheduler/v1alpha1
kind: DeschedulerPolicy
{top}
strategies:
  {name}:
    enabled: true
    params: {params}
"""


def policies_of(text):
    return parse_configuration(converted(text).text, "out").policies


def arguments_of(text):
    (policy,) = policies_of(text)
    return policy.args


@pytest.mark.crossed
@pytest.mark.parametrize("write", [one_plugin, one_strategy])
@pytest.mark.parametrize("name", PLUGINS)
def test_every_plugin_is_a_policy_or_a_remark(name, write):
    result = converted(write(name))
    configuration = parse_configuration(result.text, "out")
    names = [p.name for p in configuration.policies] + ["failedPods"] * configuration.failed_pods.enabled
    remarks = [remark for remark in result.remarks if remark.what == name]
    assert len(names) + len(remarks) == 1
    assert all(remark.reason != "no plugin of descheduler itself" for remark in remarks)
    assert all(str(remark.line) in result.text for remark in remarks)


def test_a_plugin_of_somebody_else_is_a_remark():
    (remark,) = converted(one_plugin("TeamPlugin")).remarks
    assert (remark.line, remark.what) == (11, "TeamPlugin")


def test_a_plugin_that_is_only_configured_is_not_switched_on():
    text = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 10}, targetThresholds: {cpu: 30}}
"""
    assert policies_of(text) == ()
    (remark,) = converted(text).remarks
    assert (remark.line, remark.reason) == (6, "it is configured, but not enabled")


def test_a_strategy_that_is_off_is_not_switched_on():
    text = one_strategy("PodLifeTime").replace("enabled: true", "enabled: false")
    assert [remark.reason for remark in converted(text).remarks] == ["it is configured, but not enabled"]


@pytest.mark.parametrize(("arguments", "types"), [
    ("{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}", ("required",)),
    ("{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution, preferredDuringSchedulingIgnoredDuringExecution]}", ("required", "preferred")),
])  # fmt: skip
@pytest.mark.parametrize("write", [one_plugin, one_strategy])
def test_node_affinity(arguments, types, write):
    assert arguments_of(write("RemovePodsViolatingNodeAffinity", arguments)).types == types


def test_node_taints():
    args = arguments_of(
        one_plugin(
            "RemovePodsViolatingNodeTaints",
            '{excludedTaints: ["dedicated=special", reserved], includePreferNoSchedule: true}',
        )
    )
    assert args.excluded_taints == ("dedicated=special", "reserved")
    assert args.include_prefer_no_schedule


@pytest.mark.parametrize(
    "arguments", ["{includeSoftConstraints: true}", "{constraints: [DoNotSchedule, ScheduleAnyway]}"]
)
def test_soft_spread(arguments):
    args = arguments_of(one_plugin("RemovePodsViolatingTopologySpreadConstraint", arguments))
    assert args.constraints == ("DoNotSchedule", "ScheduleAnyway")


def test_low_node_utilization():
    args = arguments_of(
        one_plugin(
            "LowNodeUtilization",
            "{thresholds: {cpu: 20, memory: 7.5}, targetThresholds: {cpu: 50, memory: 60}, numberOfNodes: 3, "
            "useDeviationThresholds: true, metricsUtilization: {source: KubernetesMetrics}, "
            "evictableNamespaces: {exclude: [kube-system]}}",
        )
    )
    assert args.thresholds == {"cpu": 20, "memory": 7.5}
    assert args.target_thresholds == {"cpu": 50, "memory": 60}
    # descheduler does nothing at numberOfNodes under-utilised nodes, only above.
    assert args.number_of_nodes == 4
    assert args.use_deviation_thresholds
    assert args.usage == "actual"
    assert args.use_default_requests, "of what is measured every pod takes a part"
    assert args.namespaces.exclude == ("kube-system",)


@pytest.mark.parametrize("plugin", ["LowNodeUtilization", "HighNodeUtilization"])
def test_a_container_without_requests_takes_nothing(plugin):
    high = ", targetThresholds: {cpu: 50}" if plugin == "LowNodeUtilization" else ""
    assert not arguments_of(one_plugin(plugin, f"{{thresholds: {{cpu: 20}}{high}}}")).use_default_requests


def test_arguments_that_v1alpha1_nests_are_found():
    args = arguments_of(
        one_strategy(
            "LowNodeUtilization",
            "{namespaces: {exclude: [db]}, nodeResourceUtilizationThresholds: "
            "{thresholds: {pods: 5}, targetThresholds: {pods: 50}, numberOfNodes: 1}}",
        )
    )
    assert (args.thresholds, args.target_thresholds) == ({"pods": 5}, {"pods": 50})
    assert (args.number_of_nodes, args.namespaces.exclude) == (2, ("db",))


@pytest.mark.parametrize(("written", "kept", "enabled"), [
    ('{exclude: [db, "openshift-*"]}', ((), ("db",)), True),
    ('{include: [db, "openshift-*"]}', (("db",), None), True),
    ('{include: ["openshift-*"]}', ((), None), False),
])  # fmt: skip
def test_a_pattern_of_namespaces_is_none(written, kept, enabled):
    text = one_plugin("RemoveDuplicates", f"{{namespaces: {written}}}")
    (policy,) = parse_configuration(converted(text).text, "out").policies
    assert (policy.args.namespaces.include, policy.args.namespaces.exclude) == kept
    assert policy.args.enabled is enabled


def test_namespaces_below_another_namespaces_are_meant():
    args = arguments_of(
        one_plugin(
            "HighNodeUtilization",
            "{thresholds: {cpu: 20}, evictableNamespaces: {namespaces: {exclude: [a, b]}}}",
        )
    )
    assert args.namespaces.exclude == ("a", "b")


def test_a_selector_of_nodes_becomes_the_one_of_each_policy():
    text = one_plugin("RemovePodsViolatingNodeTaints", top='nodeSelector: "pool=web, tier==a"')
    assert arguments_of(text).node_selector == {"pool": "web", "tier": "a"}


def test_a_selector_of_nodes_that_is_no_list_of_labels_is_a_remark():
    text = one_plugin("RemovePodsViolatingNodeTaints", top='nodeSelector: "pool in (web,db)"')
    assert arguments_of(text).node_selector == {}
    assert not arguments_of(text).enabled
    assert [remark.line for remark in converted(text).remarks] == [3]


def test_the_policies_stand_in_the_order_in_which_the_plugins_run():
    text = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  plugins:
    balance: {enabled: [RemovePodsViolatingTopologySpreadConstraint]}
    deschedule: {enabled: [RemovePodsViolatingNodeTaints, RemovePodsViolatingNodeAffinity]}
"""
    assert [p.name for p in policies_of(text)] == ["NodeTaints", "NodeAffinity", "TopologySpread"]


def test_what_one_policy_fills_the_other_does_not_empty():
    text = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - {name: LowNodeUtilization, args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}}
  - {name: HighNodeUtilization, args: {thresholds: {cpu: 20}}}
  plugins:
    balance: {enabled: [LowNodeUtilization, HighNodeUtilization]}
"""
    assert {p.name: p.args.enabled for p in policies_of(text)} == {
        "LowNodeUtilization": True,
        "HighNodeUtilization": False,
    }


@pytest.mark.parametrize(("plugin", "arguments"), [
    ("LowNodeUtilization", "{}"),
    ("HighNodeUtilization", "{numberOfNodes: 3}"),
    ("RemovePodsViolatingNodeAffinity", "{}"),
    ("RemovePodsViolatingNodeAffinity", "{nodeAffinityType: [requiredDuringSchedulingRequiredDuringExecution]}"),
])  # fmt: skip
def test_what_descheduler_refuses_for_want_of_an_argument_is_switched_off(plugin, arguments):
    assert not arguments_of(one_plugin(plugin, arguments)).enabled


def test_nodes_are_filled_up_as_far_as_descheduler_lets_them_be():
    args = arguments_of(one_plugin("HighNodeUtilization", "{thresholds: {cpu: 20, pods: 10}}"))
    assert args.target_thresholds == {"cpu": 100, "memory": 100}


def test_pods_that_an_eviction_mode_leaves_are_not_moved():
    args = arguments_of(
        one_plugin(
            "HighNodeUtilization", "{thresholds: {cpu: 20}, evictionModes: [OnlyThresholdingResources]}"
        )
    )
    assert not args.enabled


def test_a_policy_that_would_be_refused_is_a_remark_with_the_reason():
    text = one_plugin("LowNodeUtilization", "{thresholds: {cpu: 20}, targetThresholds: {memory: 50}}")
    result = converted(text)
    assert parse_configuration(result.text, "out").policies == ()
    assert {remark.what for remark in result.remarks} == {"LowNodeUtilization"}
    assert all("hresholds" in remark.reason for remark in result.remarks)


def test_a_policy_that_would_be_refused_keeps_the_remarks_about_its_arguments():
    text = one_plugin("LowNodeUtilization", "{thresholds: {cpu: 20}, targetThreshold: {cpu: 50}}")
    assert "targetThreshold: {cpu: 50}" in {remark.what for remark in converted(text).remarks}


def test_an_argument_that_descheduler_does_not_have_is_a_remark():
    (remark,) = converted(one_plugin("RemovePodsViolatingNodeTaints", "{excludeTaints: [a]}")).remarks
    assert remark.what == "excludeTaints: [a]"


def test_a_value_of_the_wrong_type_is_an_error_with_its_line():
    text = one_plugin("LowNodeUtilization", "{thresholds: {cpu: much}, targetThresholds: {cpu: 50}}")
    with pytest.raises(ConfigurationError, match=r"policy.yaml:8: .*thresholds"):
        converted(text)


FAILED_PODS = (
    "{reasons: [NodeAffinity, OutOfcpu], minPodLifetimeSeconds: 3600, includingInitContainers: true%s}"
)


@pytest.mark.parametrize("text", [
    one_plugin("RemoveFailedPods", FAILED_PODS % ", excludeOwnerKinds: [Job]"),
    one_strategy("RemoveFailedPods", f"{{failedPods: {FAILED_PODS % ', excludeOwnerKinds: [Job]'}}}"),
])  # fmt: skip
def test_failed_pods_are_a_section_of_their_own(text):
    found = parse_configuration(converted(text).text, "out").failed_pods
    everywhere, kinds = NamespaceFilter(exclude=()), ("DaemonSet", "Job")
    reasons = ("NodeAffinity", "OutOfcpu")
    assert found == FailedPods(
        enabled=True, reasons=reasons, exclude_owner_kinds=kinds, namespaces=everywhere
    )


def test_failed_pods_of_named_namespaces():
    text = one_plugin("RemoveFailedPods", FAILED_PODS % ", namespaces: {include: [ci-runners]}")
    found = parse_configuration(converted(text).text, "out").failed_pods
    assert found.enabled
    assert found.namespaces == NamespaceFilter(include=("ci-runners",))


def test_failed_pods_of_a_pattern_of_namespaces_stay():
    some = one_plugin("RemoveFailedPods", FAILED_PODS % ', namespaces: {include: [ci, "team-*"]}')
    none = one_plugin("RemoveFailedPods", FAILED_PODS % ', namespaces: {include: ["team-*"]}')
    assert parse_configuration(converted(some).text, "out").failed_pods.namespaces.include == ("ci",)
    assert not parse_configuration(converted(none).text, "out").failed_pods.enabled


@pytest.mark.parametrize(("more", "top", "word"), [
    (", labelSelector: {matchLabels: {a: b}}", "", "labelSelector"),
    (", exitCodes: [1]", "", "exitCodes"),
    ("", "nodeSelector: pool=a", "nodeSelector"),
])  # fmt: skip
def test_failed_pods_that_descheduler_would_leave_are_not_deleted(more, top, word):
    result = converted(one_plugin("RemoveFailedPods", FAILED_PODS % more, top=top))
    assert not parse_configuration(result.text, "out").failed_pods.enabled
    assert word in result.text


@pytest.mark.parametrize("text", [
    one_strategy("PodLifeTime", "{podLifeTime: {maxPodLifeTimeSeconds: 300, podStatusPhases: [Pending]}}"),
    one_plugin("PodLifeTime", "{maxPodLifeTimeSeconds: 3600, conditions: [{reason: PodCompleted}]}"),
    one_plugin("PodLifeTime", "{maxPodLifeTimeSeconds: 3600, ownerKinds: {include: [Job]}}"),
    one_plugin("PodLifeTime", "{maxPodLifeTimeSeconds: 3600, exitCodes: [1]}"),
    one_plugin("PodLifeTime", "{maxPodLifeTimeSeconds: -5}"),
    one_plugin("LowNodeUtilization", "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, metricsUtilization: {source: Kubernetes}}"),
    one_plugin("LowNodeUtilization", "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, evictionModes: [OnlyThresholdingResources]}"),
])  # fmt: skip
def test_an_argument_by_which_descheduler_leaves_pods_switches_the_policy_off(text):
    assert not arguments_of(text).enabled


@pytest.mark.parametrize(("argument", "reason"), [
    ("conditions: [{reason: PodCompleted}]", "it has no equivalent"),
    ("ownerKinds: {include: [Job]}", "it has no equivalent"),
    ("exitCodes: [1]", "it has no equivalent"),
    ("includingInitContainers: true", "it has no equivalent"),
    ("includingEphemeralContainers: true", "it has no equivalent"),
    ("ownerKind: [Job]", "no argument of PodLifeTime"),
])  # fmt: skip
def test_an_argument_that_only_descheduler_has_is_not_called_misspelt(argument, reason):
    remarks = converted(one_plugin("PodLifeTime", f"{{maxPodLifeTimeSeconds: 3600, {argument}}}")).remarks
    assert [remark.reason for remark in remarks] == [reason]


@pytest.mark.parametrize(("plugin", "argument", "told"), [
    ("LowNodeUtilization", "metricsUtilization: {metricServer: true}", "metricsUtilization.metricServer"),
    ("LowNodeUtilization", "evictionLimits: {nodes: 2}", "evictionLimits.nodes: 2"),
    ("RemoveFailedPods", "namespaces: {includes: [a]}", "namespaces.includes: [a]"),
    ("RemoveFailedPods", "minPodLifetimeSeconds: -5", "minPodLifetimeSeconds: -5"),
])  # fmt: skip
def test_a_wrong_key_or_value_inside_of_an_argument_is_told(plugin, argument, told):
    thresholds = "thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, " if plugin.startswith("Low") else ""
    remarks = converted(one_plugin(plugin, f"{{{thresholds}{argument}}}")).remarks
    assert told in [remark.what for remark in remarks]


def test_restarts_of_init_containers_count_as_in_descheduler():
    text = one_plugin(
        "RemovePodsHavingTooManyRestarts", "{podRestartThreshold: 9, includingInitContainers: true}"
    )
    assert arguments_of(text).including_init_containers
    assert not converted(text).remarks
