"""What the manifests say fits what the program says and does."""

import json
import re

import pytest
import yaml

from harness.controlplane import manifests
from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.process_sections import GateSection
from rescheduler.controller.metrics import Metrics
from rescheduler.model import names
from rescheduler.model.kinds import RESOURCES
from rescheduler.model.own_objects import LONGEST_USER
from rescheduler.webhook.registration import CONFIGURATION_NAME, SERVICE_NAME, SERVICE_PORT
from rescheduler.webhook.secret import SECRET_NAME

DOCS = manifests.FOLDER.parent / "docs"
MONITORING = manifests.FOLDER / "monitoring"
RUNBOOK = "https://rescheduler.example/docs/troubleshooting.md"


@pytest.fixture(scope="module")
def objects():
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in manifests.load()}


def test_priority_classes_are_high_and_low_and_preempt_nothing(objects):
    high = objects["PriorityClass", names.PRIORITY_CLASS]
    soft = objects["PriorityClass", names.PRIORITY_CLASS_SOFT]
    assert 0 < high["value"] <= 1_000_000_000
    assert soft["value"] < 0
    assert {high["preemptionPolicy"], soft["preemptionPolicy"]} == {"Never"}


def test_the_configuration_is_valid_and_moves_little(objects):
    text = objects["ConfigMap", names.CONFIG_MAP]["data"][names.CONFIG_KEY]
    configuration = parse_configuration(text, "manifests/base/configmaps.yaml")
    assert configuration.policies
    assert configuration.aggressiveness < 0.5


def test_what_the_controller_writes_are_empty_config_maps(objects):
    for name in (names.GATE_CONFIG_MAP, names.AVOID_CONFIG_MAP, names.HISTORY_CONFIG_MAP):
        config_map = objects["ConfigMap", name]
        assert config_map["metadata"]["namespace"] == names.DEFAULT_NAMESPACE
        assert "data" not in config_map, "applying the manifests again would switch off what is in force"


def test_a_second_apply_changes_no_policy(objects):
    """The API server writes ``scope`` into the rules of a list that apply compares as a whole: without it GitOps sees a change for ever."""
    matched = [
        obj["spec"]["matchConstraints"]
        for obj in objects.values()
        if "matchConstraints" in obj.get("spec", {})
    ]
    rules = [
        rule
        for one in matched
        for key in ("resourceRules", "excludeResourceRules")
        for rule in one.get(key, ())
    ]
    assert len(rules) > 20
    assert {rule.get("scope") for rule in rules} == {"*"}


def test_the_policies_fail_open_and_use_the_names_of_the_program(objects):
    for name, config_map in (("gate", names.GATE_CONFIG_MAP), ("hint", names.AVOID_CONFIG_MAP)):
        policy = objects["MutatingAdmissionPolicy", f"{name}.rescheduler.dev"]["spec"]
        binding = objects["MutatingAdmissionPolicyBinding", f"{name}.rescheduler.dev"]["spec"]
        assert policy["failurePolicy"] == "Ignore"
        assert binding["policyName"] == f"{name}.rescheduler.dev"
        assert binding["paramRef"] == {
            "name": config_map,
            "namespace": names.DEFAULT_NAMESPACE,
            "parameterNotFoundAction": "Allow",
        }
    expression = objects["MutatingAdmissionPolicy", "gate.rescheduler.dev"]["spec"]["mutations"][0]
    text = expression["applyConfiguration"]["expression"]
    assert names.GATE in text
    assert names.ANNOTATION_RESERVATION in text


def test_who_asks_is_noted_and_protected_by_the_same_rule(objects):
    noted = objects["MutatingAdmissionPolicy", "requested-by.rescheduler.dev"]["spec"]
    kept = objects["ValidatingAdmissionPolicy", "requested-by-marks.rescheduler.dev"]["spec"]
    assert (noted["failurePolicy"], kept["failurePolicy"]) == ("Ignore", "Fail")
    assert noted["matchConstraints"] == kept["matchConstraints"]
    users = [{v["name"]: v["expression"] for v in spec["variables"]}["user"] for spec in (noted, kept)]
    assert users[0] == users[1]
    assert f"substring(0, {LONGEST_USER})" in users[0]
    assert names.ANNOTATION_REQUESTED_BY in noted["mutations"][0]["jsonPatch"]["expression"]
    assert f"'{names.ANNOTATION_REQUESTED_BY}'" in {v["expression"] for v in kept["variables"]}
    for kind, name in (("Mutating", "requested-by"), ("Validating", "requested-by-marks")):
        binding = objects[f"{kind}AdmissionPolicyBinding", f"{name}.rescheduler.dev"]["spec"]
        assert binding["policyName"] == f"{name}.rescheduler.dev"


def test_the_kinds_are_those_that_the_program_reads(objects):
    for kind, resource in RESOURCES.items():
        if resource.group == names.GROUP:
            spec = objects["CustomResourceDefinition", f"{resource.plural}.{resource.group}"]["spec"]
            assert spec["names"]["kind"] == kind
            assert spec["scope"] == ("Namespaced" if resource.namespaced else "Cluster")
            assert [version["name"] for version in spec["versions"]] == [resource.version]
            assert spec["versions"][0]["subresources"] == {"status": {}}
            assert spec["names"]["categories"] == ["rescheduler"]


def test_everything_that_is_read_may_be_read(objects):
    granted = {
        (group, plural)
        for rule in objects["ClusterRole", "rescheduler-read"]["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
        if {"get", "list", "watch"} <= set(rule["verbs"])
    }
    assert {(resource.group, resource.plural) for resource in RESOURCES.values()} <= granted


def test_the_read_role_only_reads(objects):
    for rule in objects["ClusterRole", "rescheduler-read"]["rules"]:
        assert set(rule["verbs"]) <= {"get", "list", "watch"}


def test_the_read_role_shows_who_leads_and_by_which_configuration(objects):
    """What ``plan``, ``status`` and ``history`` read beside the cluster: without it they go by the default and know no leader."""
    named = {
        (plural, name)
        for rule in objects["ClusterRole", "rescheduler-read"]["rules"]
        for plural in rule["resources"]
        for name in rule.get("resourceNames", ())
    }
    assert {
        ("leases", names.LEASE_NAME),
        ("configmaps", names.CONFIG_MAP),
        ("configmaps", names.HISTORY_CONFIG_MAP),
    } <= named


def test_no_role_has_a_wildcard(objects):
    for (kind, _), obj in objects.items():
        for rule in obj["rules"] if kind in ("Role", "ClusterRole") else ():
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_the_container_can_do_nothing_to_its_node(objects):
    pod = objects["Deployment", "rescheduler"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (
        objects["Namespace", "rescheduler"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        == "restricted"
    )


def test_every_metric_in_alerts_and_dashboard_exists():
    rules = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    expressions = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    metrics = Metrics()
    metrics.watch_informers([])
    known = set(re.findall(r"^# TYPE (rescheduler_\w+)", metrics.render().decode(), re.MULTILINE))
    used = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for expression in expressions
        for name in re.findall(r"rescheduler_\w+", expression)
    }
    assert used <= known
    assert known - used == set(), "metrics that nobody looks at"


def test_every_alert_leads_to_a_chapter_that_says_what_to_do_about_it():
    rules = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    _, *parts = re.split(r"^## ", (DOCS / "troubleshooting.md").read_text(), flags=re.MULTILINE)
    titled = (part.partition("\n") for part in parts)
    chapters = {re.sub(r"[^a-z0-9 -]", "", t.lower()).replace(" ", "-"): rest for t, _, rest in titled}
    for group in rules["spec"]["groups"]:
        for rule in group["rules"]:
            page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
            assert page == RUNBOOK
            assert f"`{rule['alert']}`" in chapters[anchor]
    assert rules["metadata"]["annotations"] == {"rescheduler.dev/runbook": RUNBOOK}


def test_the_panels_of_the_dashboard_do_not_lie_on_each_other():
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_labels_in_alerts_are_those_of_the_metrics():
    text = Metrics().render().decode()
    assert 'rescheduler_cycles_total{result="failed"}' in text
    for result in ("elsewhere", "failed_after_eviction"):
        assert f'rescheduler_moves_landed_total{{result="{result}"}}' in text


def test_the_webhook_component_grants_its_own_objects_only_and_ships_no_content():
    component = {
        (obj["kind"], obj["metadata"]["name"]): obj
        for name in ("webhook-server", "webhook", "guard")
        for obj in manifests.load(manifests.FOLDER / "components" / name)
    }
    assert "data" not in component["Secret", SECRET_NAME]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert "webhooks" not in component[kind, CONFIGURATION_NAME]
    (port,) = component["Service", SERVICE_NAME]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (SERVICE_PORT, GateSection().port)
    for (kind, _), obj in component.items():
        for rule in obj["rules"] if kind in ("Role", "ClusterRole") else ():
            assert rule["resourceNames"], "a right without names reaches other people's objects"
            assert not {"create", "delete", "*"} & set(rule["verbs"])


@pytest.fixture(scope="module")
def rules(objects):
    """The spec of each ValidatingAdmissionPolicy."""
    return {name: obj["spec"] for (kind, name), obj in objects.items() if kind == "ValidatingAdmissionPolicy"}


def test_the_policies_that_say_whose_is_what_fail_closed(objects, rules):
    for name, spec in rules.items():
        assert spec["failurePolicy"] == "Fail"
        binding = objects["ValidatingAdmissionPolicyBinding", name]["spec"]
        assert (binding["policyName"], binding["validationActions"]) == (name, ["Deny"])


def test_the_policies_for_the_controller_are_for_its_service_account(objects, rules):
    account = objects["ServiceAccount", "rescheduler"]["metadata"]
    assert f"system:serviceaccount:{account['namespace']}:{account['name']}" == names.CONTROLLER_USER
    own = [spec for name, spec in rules.items() if name.startswith("controller-")]
    asked = f"request.userInfo.username == '{names.CONTROLLER_USER}'"
    assert {spec["matchConditions"][0]["expression"] for spec in own} == {asked}


@pytest.mark.parametrize(("policy", "used"), [
    ("controller-pods", (names.GATE, names.GATE_ROOM, names.ANNOTATION_RESERVATION)),
    ("controller-pods", (names.KOORDINATOR_AFFINITY, names.LABEL_START_FIRST)),
    ("controller-nodes", (names.ANNOTATION_HANDOVER_TAINT, names.ANNOTATION_AVOID)),
    ("controller-creations", (names.LABEL_PLACEHOLDER, names.LABEL_START_FIRST)),
    ("controller-objects", (names.GATE_CONFIG_MAP, names.AVOID_CONFIG_MAP, names.HISTORY_CONFIG_MAP)),
    ("controller-objects", (names.LEASE_NAME, names.MOVE_SUFFIX, names.ANNOTATION_MIGRATION)),
    ("reservation-marks", (names.ANNOTATION_MIGRATION, names.ANNOTATION_MIGRATION_UID, names.MOVE_SUFFIX)),
    ("podmigration-marks", (names.LABEL_CREATED_BY, names.CREATED_BY, names.LABEL_WORKLOAD_UID)),
    ("placeholder-priority", (names.PRIORITY_CLASS, names.PRIORITY_CLASS_SOFT, names.DEFAULT_NAMESPACE)),
])  # fmt: skip
def test_the_rules_use_the_names_of_the_program(rules, policy, used):
    text = json.dumps(rules[f"{policy}.rescheduler.dev"])
    assert [name for name in used if f"'{name}'" not in text] == []


def test_no_role_for_people_writes_a_status(objects):
    roles = [
        obj for (kind, name), obj in objects.items() if kind == "ClusterRole" and name != "rescheduler-move"
    ]
    granted = [
        rule
        for role in roles
        for rule in role.get("rules", ())
        if set(rule["verbs"]) - {"get", "list", "watch"}
    ]
    assert granted
    for rule in granted:
        assert not [resource for resource in rule["resources"] if "/" in resource or resource == "*"]


def _without_description(schema, path):
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        if not inner.get("description") and where.count(".") + (name != "metadata") > 1:
            yield where
        yield from _without_description(inner, where)
    if "items" in schema:
        yield from _without_description(schema["items"], f"{path}[]")


def test_kubectl_explain_has_a_text_for_every_field(objects):
    crds = [one for (kind, _), one in objects.items() if kind == "CustomResourceDefinition"]
    assert len(crds) == 4
    missing = [
        path
        for crd in crds
        for version in crd["spec"]["versions"]
        for path in _without_description(version["schema"]["openAPIV3Schema"], crd["spec"]["names"]["kind"])
    ]
    assert missing == []
