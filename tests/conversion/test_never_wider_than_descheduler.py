"""A converted policy may move the pods that descheduler's own may evict, no other ones, however its profiles differ."""

import itertools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.cli.dump_words import resolved
from rescheduler.configuration.document import parse_configuration
from rescheduler.conversion.converted_document import flow
from rescheduler.conversion.policy_conversion import convert_policy
from rescheduler.model.selectors import LabelSet

EXAMPLES = int(os.environ.get("RESCHEDULER_EXAMPLES", "40"))
PLUGINS = {
    "RemovePodsViolatingNodeTaints": ("NodeTaints", {}),
    "RemovePodsViolatingInterPodAntiAffinity": ("InterPodAntiAffinity", {}),
    "LowNodeUtilization": ("LowNodeUtilization", {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}),
}  # fmt: skip
CRITICAL = 2_000_000_000
CLASS_VALUE = 300
"""Of the PriorityClass "mine", which the conversion cannot know."""
AGE_S = 3600.0
SELECTORS = [
    {"matchLabels": {"tier": "web"}},
    {"matchLabels": {"tier": "db"}},
    {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
]
PODS = [
    dict(zip(("labels", "namespace", "priority", "local", "pvc", "budget", "replicas", "age"), values, strict=True))
    for values in itertools.product(
        ({}, {"tier": "web"}, {"tier": "db"}), ("a", "b"), (0, 400), (False, True), (False, True), (False, True), (1, 3),
        (60.0, 86_400.0),
    )
]  # fmt: skip


def selects(selector, labels):
    """A LabelSelector by the rules of Kubernetes."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for one in selector.get("matchExpressions") or ():
        has, value = one["key"] in labels, labels.get(one["key"])
        right = {
            "In": has and value in one.get("values", ()),
            "NotIn": not has or value not in one.get("values", ()),
            "Exists": has,
            "DoesNotExist": not has,
        }[one["operator"]]
        if not right:
            return False
    return True


def descheduler_may_evict(pod, profile, plugin):
    """What DefaultEvictor and the plugin's own arguments leave, as descheduler's documentation says."""
    evictor, arguments = profile["evictor"] or {}, profile["plugins"][plugin]
    protections = evictor.get("podProtections") or {}
    threshold = evictor.get("priorityThreshold") or {}
    most = CLASS_VALUE if threshold.get("name") else threshold.get("value", CRITICAL)
    namespaces = arguments.get("namespaces") or arguments.get("evictableNamespaces") or {}
    included, excluded = namespaces.get("include"), namespaces.get("exclude") or ()
    local_allowed = "PodsWithLocalStorage" in (protections.get("defaultDisabled") or ()) or evictor.get(
        "evictLocalStoragePods"
    )
    return (
        pod["priority"] < most
        and (not pod["local"] or bool(local_allowed))
        and not (
            pod["pvc"]
            and ("PodsWithPVC" in (protections.get("extraEnabled") or ()) or evictor.get("ignorePvcPods"))
        )
        and not (not pod["budget"] and evictor.get("ignorePodsWithoutPDB"))
        and pod["replicas"] >= evictor.get("minReplicas", 0)
        and pod["age"] >= (AGE_S if "minPodAge" in evictor else 0)
        and selects(evictor.get("labelSelector") or {}, pod["labels"])
        and selects(arguments.get("labelSelector") or {}, pod["labels"])
        and (pod["namespace"] in included if included else pod["namespace"] not in excluded)
        and "namespaceLabelSelector" not in evictor  # no namespace here has labels
        and not profile["filter"]  # an unknown filter may protect every pod
    )


def we_may_move(pod, protections, policy):
    """What the converted configuration allows."""
    scope = policy.args.scope()
    return (
        pod["priority"] < protections.priority_threshold
        and not (pod["local"] and protections.local_storage)
        and not (pod["pvc"] and protections.persistent_volumes)
        and not (not pod["budget"] and protections.without_budget)
        and pod["replicas"] >= protections.min_replicas
        and pod["age"] >= protections.min_age_s
        and (
            protections.label_selector is None or protections.label_selector.matches(LabelSet(pod["labels"]))
        )
        and not protections.namespaces.include
        and protections.namespaces.admits(pod["namespace"])
        and (scope.selector is None or scope.selector.matches(LabelSet(pod["labels"])))
        and scope.namespaces.admits(pod["namespace"])
    )


def text_of(profiles):
    lines = ["apiVersion: descheduler/v1alpha2", "kind: DeschedulerPolicy", "profiles:"]
    for index, profile in enumerate(profiles):
        config = [{"name": name, "args": arguments} for name, arguments in profile["plugins"].items()]
        if profile["evictor"] is not None:
            config.append({"name": "DefaultEvictor", "args": profile["evictor"]})
        points = {"balance": {"enabled": list(profile["plugins"])}, "filter": {"enabled": profile["filter"]}}
        lines.append(f"- {flow({'name': f'p{index}', 'pluginConfig': config, 'plugins': points})}")
    return "\n".join(lines) + "\n"


def check(profiles):
    found = convert_policy(text_of(profiles), "policy.yaml", lambda word, _path: resolved(word))
    configuration = parse_configuration(found.text, "out")
    entries = [(profile, plugin) for profile in profiles for plugin in profile["plugins"]]
    inputs = configuration.inputs()
    for (profile, plugin), policy in zip(entries, configuration.policies, strict=True):
        assert policy.name == PLUGINS[plugin][0]
        protections = inputs.profiles.get(policy.title, inputs.protections)
        for pod in PODS if policy.args.enabled else ():
            ours = we_may_move(pod, protections, policy)
            assert ours == descheduler_may_evict(pod, profile, plugin), (policy.title, pod, found.text)


EVICTORS = st.fixed_dictionaries({}, optional={
    "labelSelector": st.sampled_from(SELECTORS),
    "priorityThreshold": st.sampled_from([{"value": 100}, {"value": 500}, {"name": "mine"}, None]),
    "minReplicas": st.sampled_from([1, 2]),
    "minPodAge": st.just("1h"),
    "evictLocalStoragePods": st.booleans(),
    "ignorePvcPods": st.booleans(),
    "ignorePodsWithoutPDB": st.booleans(),
    "podProtections": st.sampled_from([{"defaultDisabled": ["PodsWithLocalStorage"]}, {"extraEnabled": ["PodsWithPVC"]}, None]),
    "namespaceLabelSelector": st.just({"matchLabels": {"a": "b"}}),
    "nodeFit": st.booleans(),
})  # fmt: skip
ARGUMENTS = st.fixed_dictionaries({}, optional={
    "labelSelector": st.sampled_from(SELECTORS),
    "namespaces": st.sampled_from([{"include": ["a"]}, {"exclude": ["b"]}, {}, None]),
})  # fmt: skip


@st.composite
def a_profile(draw):
    plugins = {}
    for name in draw(st.lists(st.sampled_from(sorted(PLUGINS)), min_size=1, max_size=3, unique=True)):
        arguments = dict(draw(ARGUMENTS))
        if name == "LowNodeUtilization":
            arguments.pop("labelSelector", None)
            bounds = arguments.pop("namespaces", None)
            if bounds and "exclude" in bounds:
                arguments["evictableNamespaces"] = bounds
        plugins[name] = {**arguments, **PLUGINS[name][1]}
    filters = draw(st.sampled_from([[], [], ["DefaultEvictor"], ["DefaultEvictor", "Mine"]]))
    return {
        "evictor": draw(st.none() | EVICTORS),
        "plugins": plugins,
        "filter": [name for name in filters if name != "DefaultEvictor"],
    }


@settings(max_examples=EXAMPLES, deadline=None)
@given(profiles=st.lists(a_profile(), min_size=1, max_size=3))
def test_no_pod_moves_that_every_profile_of_the_plugin_protects(profiles):
    check(profiles)


LOW = {"LowNodeUtilization": PLUGINS["LowNodeUtilization"][1]}
TAINTS = {"RemovePodsViolatingNodeTaints": {}}
KNOWN = {
    "a selector of one profile": [(None, TAINTS, []), ({"labelSelector": SELECTORS[0]}, LOW, [])],
    "different selectors": [({"labelSelector": SELECTORS[0]}, TAINTS, []), ({"labelSelector": SELECTORS[2]}, LOW, [])],
    "a selector of the evictor and one of the plugin": [
        ({"labelSelector": SELECTORS[3]}, {"RemovePodsViolatingNodeTaints": {"labelSelector": SELECTORS[1]}}, []),
        (None, LOW, []),
    ],
    "local storage of one profile": [({"evictLocalStoragePods": True}, TAINTS, []), (None, LOW, [])],
    "a class that only the cluster knows": [({"priorityThreshold": {"name": "mine"}}, TAINTS, [])],
    "namespaces by labels": [({"namespaceLabelSelector": {"matchLabels": {"a": "b"}}}, TAINTS, [])],
    "a filter that is not known": [(None, TAINTS, ["Mine"])],
}  # fmt: skip


@pytest.mark.parametrize("rows", KNOWN.values(), ids=KNOWN)
def test_a_protection_of_one_profile_is_kept(rows):
    check([{"evictor": evictor, "plugins": plugins, "filter": filters} for evictor, plugins, filters in rows])


def test_a_filter_that_is_enabled_is_not_called_otherwise():
    text = text_of([{"evictor": None, "plugins": TAINTS, "filter": ["Mine"]}])
    found = convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))
    (remark,) = found.remarks
    assert (remark.what, "not enabled" in remark.reason) == ("Mine", False)


def test_a_profile_without_a_selector_goes_on_beside_one_that_has_it():
    rows = [(None, TAINTS, []), ({"labelSelector": SELECTORS[0]}, LOW, [])]
    text = text_of([{"evictor": e, "plugins": p, "filter": f} for e, p, f in rows])
    found = convert_policy(text, "policy.yaml", lambda word, _path: resolved(word))
    policies = {policy.name: policy.args for policy in parse_configuration(found.text, "out").policies}
    assert policies["NodeTaints"].enabled
    assert policies["NodeTaints"].label_selector is None
    assert policies["LowNodeUtilization"].enabled
