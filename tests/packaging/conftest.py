"""What the tests of the chart share."""

import pytest

from harness.controlplane import binaries
from harness.strangers.build import find
from harness.strangers.tools import HELM


@pytest.fixture(scope="module")
def programs():
    return str(find(HELM)), binaries.find().path("kubectl")
