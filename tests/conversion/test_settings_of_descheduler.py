"""DefaultEvictor and the settings of a whole policy: the same pods may be moved, and nothing becomes looser than the default."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cli.dump_words import resolved
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.conversion.policy_conversion import convert_policy
from rescheduler.planning.limits import Protections, limits_for

V2 = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
V1 = "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"


def converted(text):
    return convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))


def configuration(text):
    return parse_configuration(converted(text).text, "out")


def evictor(arguments):
    return f"{V2}profiles:\n- pluginConfig:\n  - {{name: DefaultEvictor, args: {arguments}}}\n"


def test_the_defaults_are_those_of_descheduler():
    protections = configuration(V2).protections
    assert protections.priority_threshold == 2_000_000_000
    assert protections.local_storage
    assert not protections.persistent_volumes
    assert protections.namespaces.exclude == ()
    assert configuration(V2).limits == limits_for(0.5)


@pytest.mark.parametrize("text", [
    f"{V1}evictLocalStoragePods: true\nignorePvcPods: true\nminReplicas: 3\n",
    evictor("{evictLocalStoragePods: true, ignorePvcPods: true, minReplicas: 3}"),
    evictor("{minReplicas: 3, podProtections: {defaultDisabled: [PodsWithLocalStorage], extraEnabled: [PodsWithPVC]}}"),
], ids=["v1alpha1", "old names", "podProtections"])  # fmt: skip
def test_protections_of_every_version(text):
    protections = configuration(text).protections
    assert not protections.local_storage
    assert protections.persistent_volumes
    assert protections.min_replicas == 3


AGED = "  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 3600}}\n  plugins: {deschedule: {enabled: [PodLifeTime]}}\n"


@pytest.mark.parametrize(("arguments", "moves", "remark"), [
    ("{podProtections: {extraEnabled: [PodsWithPVCs]}}", False, "extraEnabled PodsWithPVCs"),
    ("{podProtections: {extraEnable: [PodsWithPVC]}}", False, "podProtections.extraEnable: [PodsWithPVC]"),
    ("{podProtections: {defaultDisabled: [PodsWithLocalStorages]}}", True, "defaultDisabled PodsWithLocalStorages"),
])  # fmt: skip
def test_a_misspelt_protection_is_told_and_moves_nobody_whom_it_was_to_keep(arguments, moves, remark):
    text = evictor(arguments) + AGED
    assert configuration(text).policies[0].args.enabled == moves
    assert [found.what for found in converted(text).remarks] == [remark]
    assert configuration(text).protections.local_storage


def test_a_misspelt_key_of_the_priority_threshold_is_told():
    (remark,) = converted(evictor("{priorityThreshold: {valeu: 500}}")).remarks
    assert remark.what == "priorityThreshold.valeu: 500"


@pytest.mark.parametrize("word", ["PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims"])
def test_each_protection_of_descheduler_is_known(word):
    text = evictor(f"{{podProtections: {{extraEnabled: [{word}]}}}}") + AGED
    assert configuration(text).policies[0].args.enabled


def test_the_other_arguments_of_the_evictor():
    protections = configuration(
        evictor(
            "{priorityThreshold: {value: 500}, minPodAge: 1h30m, ignorePodsWithoutPDB: true, "
            "labelSelector: {matchLabels: {move: 'yes'}}}"
        )
    ).protections
    assert (protections.priority_threshold, protections.min_age_s) == (500, 5400)
    assert protections.without_budget
    assert protections.label_selector is not None


def test_profiles_keep_protections_of_their_own_and_what_they_have_alike_stands_once():
    text = f"""{V2}profiles:
- name: a/b
  pluginConfig: [{{name: DefaultEvictor, args: {{evictLocalStoragePods: true, minReplicas: 2, ignorePvcPods: true}}}}]
  plugins: {{deschedule: {{enabled: [RemovePodsViolatingNodeTaints]}}}}
- pluginConfig: [{{name: DefaultEvictor, args: {{priorityThreshold: {{value: 7}}, minReplicas: 2}}}}]
  plugins: {{deschedule: {{enabled: [RemovePodsViolatingNodeTaints]}}}}
"""
    found = configuration(text)
    assert [policy.title for policy in found.policies] == ["a-b/NodeTaints", "profile-2/NodeTaints"]
    one, two = (profile.protections for profile in found.profiles)
    assert (one.local_storage, two.local_storage) == (False, True)
    assert (one.persistent_volumes, two.persistent_volumes) == (True, False)
    assert (one.priority_threshold, two.priority_threshold) == (2_000_000_000, 7)
    assert (found.protections.min_replicas, one.min_replicas, two.min_replicas) == (2, 2, 2)


def test_profiles_with_the_same_protections_become_one_list():
    one, other = (
        f"{{plugins: {{deschedule: {{enabled: [RemovePodsViolating{name}]}}}}}}"
        for name in ("NodeTaints", "InterPodAntiAffinity")
    )
    found = configuration(f"{V2}profiles: [{one}, {other}]\n")
    assert not found.profiles
    assert [policy.title for policy in found.policies] == ["NodeTaints", "InterPodAntiAffinity"]
    twice = configuration(f"{V2}profiles: [{one}, {one}]\n")
    assert [policy.title for policy in twice.policies] == ["profile-1/NodeTaints", "profile-2/NodeTaints"]
    assert twice.echoes == {"profile-2/NodeTaints"}


def test_a_protection_that_cannot_be_used_switches_off_the_policies_of_its_profile_only():
    enabled = "plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}"
    wrong = "{labelSelector: {matchExpressions: [{key: a, operator: Is}]}}"
    text = f"{V2}profiles: [{{name: a, {enabled}, pluginConfig: [{{name: DefaultEvictor, args: {wrong}}}]}}, {{name: b, {enabled}}}]\n"
    assert [policy.args.enabled for policy in configuration(text).policies] == [False, True]


@pytest.mark.parametrize(
    "arguments", ["{evictFailedBarePods: true}", "{podProtections: {defaultDisabled: [FailedBarePods]}}"]
)
def test_failed_pods_without_a_controller_go_where_descheduler_evicts_them(arguments):
    profile = f"pluginConfig: [{{name: DefaultEvictor, args: {arguments}}}]"
    on = f"{V2}profiles: [{{{profile}, plugins: {{deschedule: {{enabled: [RemoveFailedPods]}}}}}}]\n"
    assert configuration(on).failed_pods.without_controller
    assert not converted(on).remarks
    (remark,) = converted(f"{V2}profiles: [{{{profile}}}]\n").remarks
    assert "section failedPods deletes them" in remark.reason


def test_a_priority_class_of_the_cluster_is_a_remark_and_lifts_nothing():
    text = evictor("{priorityThreshold: {name: shop-high}}")
    assert [remark.what for remark in converted(text).remarks] == ["name: shop-high"]
    assert configuration(text).protections.priority_threshold == Protections().priority_threshold


@pytest.mark.parametrize(("threshold", "expected"), [
    ("thresholdPriority: 7", 7),
    ("thresholdPriorityClassName: system-node-critical", 2_000_001_000),
    ("", None),
])  # fmt: skip
def test_the_threshold_of_a_strategy_is_that_of_its_policy(threshold, expected):
    text = f"""{V1}strategies:
  RemovePodsViolatingNodeTaints: {{enabled: true, params: {{thresholdPriority: 10000}}}}
  RemovePodsViolatingInterPodAntiAffinity: {{enabled: true, params: {{{threshold}}}}}
"""
    found = {policy.name: policy.args.priority_threshold for policy in configuration(text).policies}
    assert found == {"NodeTaints": 10000, "InterPodAntiAffinity": expected}


def test_pods_that_wish_to_stay_do_where_descheduler_must_leave_them():
    assert configuration(evictor("{noEvictionPolicy: Mandatory}")).protections.prefer_no_eviction
    assert not configuration(evictor("{noEvictionPolicy: Preferred}")).protections.prefer_no_eviction


@pytest.mark.parametrize(
    "places", ["profiles: []", "strategies: {RemovePodsViolatingNodeTaints: {enabled: true}}"]
)
def test_values_of_the_helm_chart_without_a_version_are_read_by_what_they_hold(places):
    names = [p.name for p in configuration(f"deschedulerPolicy: {{{places}}}\n").policies]
    assert names == (["NodeTaints"] if "strategies" in places else [])


@pytest.mark.parametrize(("key", "field"), [
    ("maxNoOfPodsToEvictPerNode", "per_node"),
    ("maxNoOfPodsToEvictPerNamespace", "per_namespace"),
    ("maxNoOfPodsToEvictTotal", "moves_at_once"),
])  # fmt: skip
@pytest.mark.parametrize("most", [0, 1, 5000])
def test_a_limit_never_becomes_looser(key, field, most):
    ours = getattr(limits_for(0.5), field)
    assert getattr(configuration(f"{V2}{key}: {most}\n").limits, field) == min(most, ours)


def test_a_protection_that_cannot_be_said_here_is_a_remark():
    (remark,) = converted(evictor("{labelSelector: {matchExpressions: [{key: a, operator: Near}]}}")).remarks
    assert (remark.line, remark.what.partition(":")[0]) == (5, "labelSelector")
    assert "Near" in remark.reason


def test_a_policy_in_a_config_map_keeps_its_lines():
    text = f"apiVersion: v1\nkind: ConfigMap\ndata:\n  policy.yaml: |\n    {V2.replace(chr(10), chr(10) + '    ')}gracePeriodSeconds: 5\n"
    (remark,) = converted(text).remarks
    assert (remark.line, text.splitlines()[remark.line - 1].strip()) == (7, "gracePeriodSeconds: 5")


def test_values_of_the_helm_chart():
    text = """\
deschedulerPolicyAPIVersion: descheduler/v1alpha2
deschedulerPolicy:
  profiles:
  - plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
"""
    assert [p.name for p in configuration(text).policies] == ["NodeTaints"]


@pytest.mark.parametrize(("text", "message"), [
    ("", r"policy.yaml:1: this is no mapping"),
    ("- a\n", r"policy.yaml:1: this is no mapping"),
    ("kind: Deployment\n", r"policy.yaml:1: kind: the kind is 'Deployment'"),
    ("a: 1\n", r"kind: 'kind' is missing"),
    ("kind: DeschedulerPolicy\n", r"apiVersion: is None"),
    ("kind: DeschedulerPolicy\napiVersion: descheduler/v2\n", r"policy.yaml:2: apiVersion"),
    (f"{V2}profiles: 3\n", r"policy.yaml:3: profiles"),
    (f"{V2}profiles: [3]\n", r"policy.yaml:3: profiles\[0\]"),
    (f"{V2}profiles: [{{pluginConfig: [{{}}]}}]\n", r"pluginConfig"),
    (f"{V2}profiles: [{{plugins: {{balance: {{enabled: x}}}}}}]\n", r"enabled"),
    (f"{V1}strategies: {{A: 3}}\n", r"strategies.A"),
    (f"{V2}a: [\n", r"not YAML"),
])  # fmt: skip
def test_bad_input_names_file_line_and_remedy(text, message):
    with pytest.raises(ConfigurationError, match=message):
        converted(text)


WORDS = st.sampled_from(
    ["on", "null", "1e3", "a: b", "#x", "x\ny", "\u202e", "-", "", "012", "cpu", "{}", "'"]
) | st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@given(
    arguments=st.dictionaries(
        st.sampled_from(
            [
                "labelSelector",
                "namespaces",
                "nodeFit",
                "thresholds",
                "targetThresholds",
                "numberOfNodes",
                "minReplicas",
                "minPodAge",
                "excludedTaints",
                "nodeAffinityType",
                "podProtections",
                "priorityThreshold",
                "evictableNamespaces",
                "x",
            ]
        ),
        JSON,
        max_size=4,
    ),
    plugin=st.sampled_from(
        ["DefaultEvictor", "LowNodeUtilization", "RemovePodsViolatingNodeTaints", "x\n- y"]
    ),
    top=st.dictionaries(
        st.sampled_from(["nodeSelector", "gracePeriodSeconds", "maxNoOfPodsToEvictPerNode"]) | WORDS, JSON
    ),
)
def test_whatever_is_written_the_result_is_valid_or_an_error_names_the_line(arguments, plugin, top):
    document = {
        **top,
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "pluginConfig": [{"name": plugin, "args": arguments}],
                "plugins": {"balance": {"enabled": [] if plugin == "DefaultEvictor" else [plugin]}},
            }
        ],
    }
    problems = ()
    try:
        parse_configuration(converted(json.dumps(document)).text, "out")
    except ConfigurationError as error:
        problems = error.problems
    assert {(problem.line, problem.file) for problem in problems} <= {(1, "policy.yaml")}
