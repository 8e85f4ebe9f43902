"""What API servers are told of the guard: about which calls they ask it, and that nothing else depends on it."""

import msgspec

from rescheduler.guard.settings import GuardSettings
from rescheduler.model.selectors import LabelSelector, Operator, Requirement
from rescheduler.webhook.registration import (
    ValidatingWebhook,
    WebhookConfiguration,
    WebhookSettings,
    guarding,
)

OWN = "system:serviceaccount:rescheduler:rescheduler"
SETTINGS = WebhookSettings(namespace="rescheduler", port=9443)


def hook(selector=None):
    chosen = GuardSettings().namespace_selector if selector is None else selector
    (found,) = guarding(SETTINGS, b"bundle", chosen, OWN)
    return found


def written(found):
    return msgspec.json.decode(msgspec.json.encode(found))


def test_it_is_asked_about_evictions_and_nothing_else():
    (rule,) = written(hook())["rules"]
    assert rule == {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
        "scope": "Namespaced",
    }


def test_it_fails_open_within_two_seconds_and_takes_dry_runs():
    found = written(hook())
    assert (found["failurePolicy"], found["timeoutSeconds"]) == ("Ignore", 2)
    assert found["sideEffects"] == "NoneOnDryRun"


def test_the_controllers_own_evictions_do_not_come_to_it():
    (condition,) = written(hook())["matchConditions"]
    assert condition["expression"] == f'request.userInfo.username != "{OWN}"'


def test_only_namespaces_that_opted_in_are_guarded_and_never_its_own_or_the_clusters():
    opted, never = written(hook())["namespaceSelector"]["matchExpressions"]
    assert opted == {"key": "rescheduler.dev/guard-evictions", "operator": "In", "values": ["enabled"]}
    assert (never["operator"], never["values"]) == ("NotIn", ["kube-system", "rescheduler"])


def test_a_selector_of_the_configuration_takes_its_place():
    team = LabelSelector((Requirement("team", Operator.EXISTS, ()),))
    chosen, _ = written(hook(team))["namespaceSelector"]["matchExpressions"]
    assert chosen == {"key": "team", "operator": "Exists"}


def test_what_is_stored_is_compared_field_by_field():
    class Api:
        def get(self, path):
            assert path.endswith("/validatingwebhookconfigurations/rescheduler.dev")
            return msgspec.json.encode({"webhooks": [self.stored]})

    api = Api()
    api.stored = hook()
    configuration = WebhookConfiguration(api, ValidatingWebhook)
    assert configuration.holds((hook(),))
    api.stored = msgspec.structs.replace(hook(), failure_policy="Fail")
    assert not configuration.holds((hook(),))
    api.stored = {"name": "of somebody else"}
    assert not configuration.holds((hook(),))
