"""Where people keep a policy: each form gives its policies, or an error that says what to do."""

import contextlib
import textwrap

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.cli.dump_words import resolved
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.conversion.policy_conversion import convert_policy

PROFILES = """\
profiles:
- name: p
  pluginConfig:
  - {name: DefaultEvictor, args: {nodeFit: true}}
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
"""
POLICY = f"apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n{PROFILES}"
OLD = """\
strategies:
  RemovePodsViolatingNodeTaints: {enabled: true}
"""
VALUES = f"kind: CronJob\nschedule: '*/5 * * * *'\ndeschedulerPolicy:\n{textwrap.indent(PROFILES, '  ')}"
FLUX = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: d}\nspec:\n"
ARGO = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: d}\nspec:\n"


def below(key, text, indent=0):
    """``text`` as the mapping at a key."""
    return textwrap.indent(f"{key}:\n{textwrap.indent(text, '  ')}", " " * indent)


def as_text(key, text, indent=0, style="|"):
    """``text`` as a text at a key."""
    return below(f"{key}: {style}".removesuffix(":"), text, indent).replace(f"{style}:\n", f"{style}\n", 1)


FORMS = {
    "policy": POLICY,
    "policy after a head": f"---\n# mine\n{POLICY}...\n",
    "config map": f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: d}}\n{as_text('data', '')}".replace("data: |\n", "data:\n") + as_text("policy.yaml", POLICY, 2),
    "config map with another key": "apiVersion: v1\nkind: ConfigMap\ndata:\n" + as_text("descheduler.yml", POLICY, 2, "|-"),
    "config map that was applied": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: "
    "'{\"data\":{\"policy.yaml\":\"kind: DeschedulerPolicy\\nold: true\"}}'\ndata:\n" + as_text("policy.yaml", POLICY, 2),
    "list of one config map": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  data:\n" + as_text("policy.yaml", POLICY, 4),
    "values": VALUES,
    "values of an old chart": f"kind: CronJob\n{below('deschedulerPolicy', OLD)}",
    "values that name the old version": f"deschedulerPolicyAPIVersion: descheduler/v1alpha1\n{below('deschedulerPolicy', OLD)}",
    "values with the head of a policy": below("deschedulerPolicy", POLICY),
    "values with the policy as a text": as_text("deschedulerPolicy", PROFILES),
    "umbrella": below("descheduler", VALUES),
    "umbrella under another name": f"global: {{a: b}}\n{below('rebalancer', VALUES)}",
    "umbrella of an umbrella": below("platform", below("descheduler", VALUES)),
    "flux": FLUX + below("values", VALUES, 2),
    "flux with an umbrella": FLUX + below("values", below("descheduler", VALUES), 2),
    "flux among other documents": f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: d}}\n---\n{FLUX}{below('values', VALUES, 2)}---\n"
    "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: d}\nspec: {url: https://charts.example/}\n",
    "flux, values in a config map": "apiVersion: v1\nkind: ConfigMap\ndata:\n" + as_text("values.yaml", VALUES, 2),
    "flux, old, in the release as served": FLUX.replace("v2", "v2beta1") + below("values", VALUES, 2) + "status: {history: [{chartName: d}], lastAttemptedValuesChecksum: x}\n",
    "argo, values": ARGO + as_text("values", VALUES, 6).join(["  source:\n    chart: descheduler\n    helm:\n", ""]),
    "argo, values object": f"{ARGO}  source:\n    chart: descheduler\n    helm:\n{below('valuesObject', VALUES, 6)}",
    "argo, several sources": f"{ARGO}  sources:\n  - {{repoURL: https://git.example, ref: values}}\n  - chart: descheduler\n    helm:\n{below('valuesObject', VALUES, 6)}",
    "argo, the same values twice": f"{ARGO}  source:\n    helm:\n{as_text('values', VALUES, 6)}{below('valuesObject', VALUES, 6)}",
    "argo, application set": "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: d}\nspec:\n  generators: [{clusters: {}}]\n  template:\n"
    f"    metadata: {{name: '{{{{name}}}}-d'}}\n    spec:\n      source:\n        helm:\n{as_text('values', VALUES, 10)}",
    "k3s": "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: d}\nspec:\n  chart: descheduler\n" + as_text("valuesContent", VALUES, 2, "|-"),
    "rancher fleet": f"defaultNamespace: kube-system\nhelm:\n  chart: descheduler\n{below('values', VALUES, 2)}",
    "kustomize": f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nhelmCharts:\n- name: descheduler\n{below('valuesInline', VALUES, 2)}",
    "helmfile": f"releases:\n- name: d\n  chart: descheduler/descheduler\n  values:\n  -\n{textwrap.indent(VALUES, '    ')}",
    "addon": "apiVersion: harvesterhci.io/v1beta1\nkind: Addon\nmetadata: {name: d}\nspec:\n  chart: descheduler\n" + as_text("valuesContent", VALUES, 2),
    "json": '{"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [{"name": "p", "plugins": {"deschedule": {"enabled": ["RemovePodsViolatingNodeTaints"]}}}]}',
    "helm get values": f"USER-SUPPLIED VALUES:\n{VALUES}",
}  # fmt: skip


def converted(text):
    return convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))


def switched_on(text):
    return {p.name for p in parse_configuration(converted(text).text, "out").policies if p.args.enabled}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_a_form_gives_its_policy(text):
    found = converted(text)
    assert switched_on(text) == {"NodeTaints"}
    assert all(0 < remark.line <= len(text.splitlines()) for remark in found.remarks)


REFUSED = {
    "two policies": (f"{POLICY}---\n{POLICY.replace('nodeFit: true', 'minReplicas: 2')}", "2 policies are here, on the lines 1, 9"),
    "values twice": (f"{ARGO}  source:\n    helm:\n{as_text('values', VALUES, 6)}{below('valuesObject', VALUES.replace('true', 'false'), 6)}", "2 policies"),
    "a parameter": (f"{ARGO}  source:\n    helm:\n      parameters: [{{name: 'deschedulerPolicy.nodeSelector', value: a=b}}]\n{below('valuesObject', VALUES, 6)}", "a parameter changes the policy"),
    "a template": (VALUES.replace("name: p", "name: '{{ .Values.x }}'"), "is a template of Helm"),
    "a template that is no YAML": (f"{{{{- if .Values.x }}}}\n{POLICY}", "not YAML"),
    "values without a policy": (f"{FLUX}  values: {{kind: Deployment}}\n", "helm get values --all"),
    "nothing": ("", "no mapping"),
    "only comments": ("# a\n---\n# b\n", "no mapping"),
    "another object": ("apiVersion: v1\nkind: Namespace\nmetadata: {name: d}\n", "the kind is 'Namespace'"),
    "a text that is no YAML": ("kind: ConfigMap\ndata:\n" + as_text("policy.yaml", "kind: DeschedulerPolicy\na: [", 2), "not YAML"),
    "an unknown version": (POLICY.replace("v1alpha2", "v1"), "is 'descheduler/v1'"),
    "old strategies of the operator": ("apiVersion: operator.openshift.io/v1beta1\nkind: KubeDescheduler\nspec: {strategies: [{name: duplicates}]}\n", "old version of the operator"),
    "an unknown profile": ("kind: KubeDescheduler\nspec: {profiles: [Everything]}\n", "'Everything' is not known"),
    "an unknown customization": ("kind: KubeDescheduler\nspec: {profiles: [LongLifecycle], profileCustomizations: {protect: [a]}}\n", "is not known"),
    "both lists of namespaces": ("kind: KubeDescheduler\nspec: {profiles: [AffinityAndTaints], profileCustomizations: {namespaces: {included: [a], excluded: [b]}}}\n", "keep one"),
    "another operator": ("apiVersion: deckhouse.io/v1alpha2\nkind: Descheduler\nspec: {strategies: {lowNodeUtilization: {enabled: true}}}\n", "the kind is 'Descheduler'"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_clear_is_refused_with_a_remedy(text, words):
    with pytest.raises(ConfigurationError) as caught:
        converted(text)
    (problem,) = caught.value.problems
    assert words in str(problem)
    assert problem.remedy
    assert 0 < problem.line <= len(text.splitlines()) + 1


def operator(profiles, custom="{}", mode="Automatic"):
    return (
        "apiVersion: operator.openshift.io/v1\nkind: KubeDescheduler\nmetadata: {name: cluster}\nspec:\n"
        f"  mode: {mode}\n  deschedulingIntervalSeconds: 3600\n  profiles: {profiles}\n  profileCustomizations: {custom}\n"
    )


OPERATOR = [
    ("[AffinityAndTaints]", {"InterPodAntiAffinity", "NodeTaints", "NodeAffinity"}),
    ("[TopologyAndDuplicates, EvictPodsWithPVC]", {"TopologySpread", "Duplicates"}),
    ("[SoftTopologyAndDuplicates]", {"TopologySpread", "Duplicates"}),
    ("[LifecycleAndUtilization, EvictPodsWithLocalStorage]", {"LowNodeUtilization", "TooManyRestarts", "PodLifeTime"}),
    ("[LongLifecycle]", {"LowNodeUtilization", "TooManyRestarts"}),
    ("[CompactAndScale]", {"HighNodeUtilization"}),
    ("[KubeVirtRelieveAndMigrate]", {"LowNodeUtilization"}),
]  # fmt: skip


@pytest.mark.parametrize(("profiles", "names"), OPERATOR, ids=[row[0] for row in OPERATOR])
def test_profiles_of_the_operator_are_off_until_its_protected_namespaces_are_named(profiles, names):
    text = operator(profiles)
    found = parse_configuration(converted(text).text, "out")
    assert {policy.name for policy in found.policies} == names
    assert switched_on(text) == set()
    assert "the operator protects kube-system" in converted(text).text


def test_namespaces_that_the_operator_is_told_bound_its_policies():
    text = operator("[AffinityAndTaints, LifecycleAndUtilization]", "{namespaces: {included: [shop]}}")
    assert switched_on(text) == {"InterPodAntiAffinity", "NodeTaints", "NodeAffinity"}
    found = parse_configuration(converted(text).text, "out")
    assert all(
        policy.args.namespaces.include == ("shop",) for policy in found.policies if policy.args.enabled
    )


def test_a_simulating_operator_is_told():
    assert "mode: Predictive" in {
        remark.what for remark in converted(operator("[LongLifecycle]", mode="Predictive")).remarks
    }


def test_what_changes_a_policy_from_outside_is_told():
    text = f"{FLUX}  valuesFrom: [{{kind: ConfigMap, name: more}}]\n{below('values', VALUES, 2)}"
    assert {remark.what for remark in converted(text).remarks} == {"valuesFrom"}
    text = below("descheduler", f"enabled: false\n{VALUES}")
    assert {remark.what for remark in converted(text).remarks} == {"enabled: false"}


LEAVES = st.sampled_from(
    [None, True, 1, "", "a\nb", POLICY, VALUES, "{{ x }}", "deschedulerPolicy: [", "kind: DeschedulerPolicy"]
)
KEYS = st.sampled_from(
    ["kind", "apiVersion", "metadata", "data", "spec", "values", "deschedulerPolicy", "deschedulerPolicyAPIVersion", "profiles",
     "parameters", "helm", "items", "policy.yaml", "strategies", "profileCustomizations", "plugins", "pluginConfig", "name", "enabled"]
)  # fmt: skip
KINDS = st.sampled_from(
    ["DeschedulerPolicy", "KubeDescheduler", "ConfigMap", "descheduler/v1alpha2", "AffinityAndTaints"]
)
SHAPES = st.recursive(
    LEAVES | KINDS,
    lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(documents=st.lists(SHAPES, min_size=1, max_size=2))
def test_any_shape_gives_a_valid_configuration_or_words(documents):
    text = yaml.safe_dump_all(documents)
    found = None
    with contextlib.suppress(ConfigurationError):
        found = converted(text)
    if found is not None:
        parse_configuration(found.text, "out")
