"""values.schema.json of the chart is the one that the types of the configuration make."""

from harness.chart_schema import FILE, text, values_schema
from rescheduler.configuration.document import SECTIONS
from rescheduler.policies.registry import REGISTRY


def test_the_schema_is_up_to_date():
    assert FILE.read_text() == text(), "write it again: python -m harness.chart_schema"


def test_every_section_and_every_policy_is_in_it():
    schema = values_schema()
    configuration, entry = schema["properties"]["configuration"], schema["definitions"]["policy"]
    assert set(SECTIONS) <= configuration["properties"].keys()
    profile = configuration["properties"]["profiles"]["items"]["properties"]
    policies = {"type": "array", "items": {"$ref": "#/definitions/policy"}, "uniqueItems": True}
    assert configuration["properties"]["policies"] == profile["policies"] == policies
    assert entry["properties"]["name"]["enum"] == list(REGISTRY)
    assert all(case["then"]["additionalProperties"] is False for case in entry["allOf"])
