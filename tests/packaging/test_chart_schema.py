"""values.schema.json of the chart is the one that the types of the configuration make."""

from harness.chart_schema import FILE, configuration_schema, text
from rescheduler.configuration.document import SECTIONS
from rescheduler.policies.registry import REGISTRY


def test_the_schema_is_up_to_date():
    assert FILE.read_text() == text(), "write it again: python -m harness.chart_schema"


def test_every_section_and_every_policy_is_in_it():
    schema = configuration_schema()
    assert set(SECTIONS) <= schema["properties"].keys()
    entry = schema["properties"]["policies"]["items"]
    assert entry["properties"]["name"]["enum"] == list(REGISTRY)
    assert all(case["then"]["additionalProperties"] is False for case in entry["allOf"])
