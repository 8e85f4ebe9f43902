"""Section ``replacements``: read strictly, and taken while the controller runs."""

import pytest

from rescheduler.configuration.document import default_configuration, parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.configuration.start_only import waiting_changes

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
WIDGET = "{apiGroup: example.com, kind: Widget}"


def read(text):
    return parse_configuration(f"{HEAD}replacements: {text}\n", "c.yaml")


def test_nothing_is_assumed_of_what_is_not_written():
    rules = default_configuration().replacements
    assert (rules.jobs, rules.replacing, rules.not_replacing) == (False, (), ())


def test_what_is_written_is_read():
    rules = read(
        f"{{jobs: true, controllers: [{WIDGET}], notReplacing: [{{apiGroup: '', kind: Gadget}}]}}"
    ).replacements
    assert rules.jobs
    assert rules.replacing == (("example.com", "Widget"),)
    assert rules.not_replacing == (("", "Gadget"),)


@pytest.mark.parametrize(("text", "field", "words"), [
    ("{job: true}", "replacements.job", "known keys: jobs, controllers, notReplacing"),
    ("{jobs: yes}", "replacements.jobs", "true or false"),
    ("{controllers: [Widget]}", "replacements.controllers[0]", ""),
    ("{controllers: [{kind: Widget}]}", "replacements.controllers[0]", ""),
    ("{controllers: [{apiGroup: example.com/v1, kind: Widget}]}", "replacements.controllers[0].apiGroup", "example.com"),
    ("{notReplacing: [{apiGroup: a, kind: ''}]}", "replacements.notReplacing[0].kind", "ownerReference"),
    ("{controllers: [{apiGroup: batch, kind: Job}]}", "replacements.controllers[0]", "replacements.jobs: true"),
    ("{controllers: [{apiGroup: apps, kind: DaemonSet}]}", "replacements.controllers[0]", "remove it"),
    (f"{{controllers: [{WIDGET}], notReplacing: [{WIDGET}]}}", "replacements.controllers[0]", "keep one of the two"),
])  # fmt: skip
def test_what_is_wrong_is_refused_with_place_and_remedy(text, field, words):
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    (problem,) = caught.value.problems
    assert (problem.field, problem.line) == (field, 3)
    assert words in problem.remedy


def test_it_is_taken_without_a_restart():
    assert waiting_changes(default_configuration(), read("{jobs: true}")) == ()
