"""What ``make quick`` runs first: the tests that are nearest to a change."""

import grimp
import pytest

from harness import quick


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph(*quick.PACKAGES, cache_dir=str(quick.CACHE))


def test_tests_that_import_what_changed_come_before_those_that_only_reach_it(graph):
    found = quick.nearest(["rescheduler/planning/trial.py"], graph)
    direct = found.index("tests/planning/test_planned_spread.py")
    assert direct < found.index("tests/sandbox/test_demo.py")
    assert "tests/scheduling/test_resource_arithmetic.py" not in found


def test_a_changed_test_is_the_nearest(graph):
    changed = ["tests/planning/test_planned_spread.py"]
    assert quick.nearest(changed, graph) == changed


def test_documents_and_manifests_are_tested_by_the_folder_of_their_name(graph):
    found = quick.nearest(["manifests/base/gate.yaml", "docs/gate.md", "README.md"], graph)
    assert {path.rsplit("/", 1)[0] for path in found} == {"tests/manifests", "tests/docs"}


def test_no_test_begins_after_the_limit():
    plugin = quick.UntilLimit(-1.0)
    assert plugin.pytest_runtest_protocol() is True
    assert quick.UntilLimit(60.0).pytest_runtest_protocol() is None


def test_a_command_that_is_loaded_by_its_name_is_tested_by_the_tests_of_commands(graph):
    assert quick.nearest(["rescheduler/cli/move.py"], graph)[0] == "tests/cli/test_move_command.py"
