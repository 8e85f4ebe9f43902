"""What the CRDs refuse of schedules and of owners, on the real API server; and what they must not refuse."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import documents
from rescheduler.model.cron import CronError, cron_of
from tests.conformance.conftest import REAL_ONLY

pytestmark = REAL_ONLY

WINDOWS = "/apis/rescheduler.dev/v1alpha1/reservationwindows"
ROOMS = "/apis/rescheduler.dev/v1alpha1/reservations"
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
BY_LABEL = {"labelSelector": {"matchLabels": {"app": "a"}}}


def window(api, cron, owner=BY_LABEL, **more):
    spec = {
        "cron": cron, "duration": "1h", "podNumToReserve": 1, "template": TEMPLATE, "owners": [owner],
        **more,
    }  # fmt: skip
    return api.create(f"{WINDOWS}?dryRun=All", documents.own("ReservationWindow", "w", spec))


@pytest.mark.parametrize("cron", [
    *("0 3 * * *", "30 6 * * MON-FRI", "*/15 0-23/2 1,15 JAN-MAR,12 *", "0 3 L * *", "0 3 LW * *"),
    *("0 0 29 2 *", "0 3 31 * *", "0 22 * * 5#2", "0 22 * * FRIL", "59 23 31 12 0-7", "0 3 - 4 * * *"),
])  # fmt: skip
def test_schedules_of_every_kind_are_taken(api, cron):
    assert window(api, cron).ok


@pytest.mark.parametrize("cron", [
    *("61 3 * * *", "0 25 * * *", "0 3 32 * *", "0 3 * 13 *", "0 3 * * 8", "0 3 31 2 *", "0 3 30 FEB *"),
    *("0 3 31 11 *", "every day", "0 3 * *", "0 0 3 * * *"),
])  # fmt: skip
def test_a_schedule_without_a_start_is_refused(api, cron):
    assert window(api, cron).status == 422


def field(low, high, names=()):
    number = st.integers(low, high).map(str)
    one = st.one_of(number, st.sampled_from(names)) if names else number
    item = st.one_of(
        st.just("*"),
        one,
        st.builds("*/{}".format, st.integers(1, 9)),
        st.builds("{}-{}".format, number, number),
    )
    return st.lists(item, min_size=1, max_size=3).map(",".join)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.tuples(
        field(0, 63), field(0, 24), field(0, 33), field(0, 13, ("JAN", "dec")), field(0, 8, ("SUN", "fri"))
    ).map(" ".join)
)
def test_no_schedule_that_the_controller_reads_is_refused(api, cron):
    try:
        cron_of(cron)
    except CronError:
        return
    assert len(cron) > 128 or window(api, cron).ok


@pytest.mark.parametrize("kind", ["DaemonSet", "Node", "deployment", "Deploy-ment"])
def test_an_owner_of_a_kind_that_has_no_such_pods_is_refused(api, kind):
    owner = {"controller": {"kind": kind, "name": "x"}}
    refused = window(api, "0 3 * * *", owner)
    assert refused.status == 422
    assert "use no Reservation" in refused.body["message"]
    body = documents.own("Reservation", "r", {"template": TEMPLATE, "owners": [owner]})
    assert api.create(f"{ROOMS}?dryRun=All", body).status == 422


@pytest.mark.parametrize(("wrong", "words"), [
    ({"cron": "every day"}, "five fields"),
    ({"timeZone": "../etc"}, "IANA"),
    ({"end": "04:00"}, "exclude each other"),
    ({"duration": None}, "hours of cron are a range"),
    ({"template": None}, "either template"),
    ({"resources": {"cpu": -1}, "template": None}, "above 0"),
    ({"duration": "200h"}, "at most 168h"),
    ({"duration": "0s"}, "more than 0s"),
    ({"duration": "0"}, "more than 0s"),
    ({"owners": [{}]}, "names an object"),
])  # fmt: skip
def test_what_rules_of_the_definition_can_judge_is_refused(api, wrong, words):
    answer = window(api, **{"cron": "0 3 * * *", **wrong})
    assert (answer.status, words in answer.body["message"]) == (422, True)


@pytest.mark.parametrize(("wrong", "words"), [
    ({"resources": {"cpu": "-1"}, "template": None}, "resources.cpu"),
    ({"podNumToReserve": 0}, "greater than or equal to 1"),
    ({"podNumToReserve": 257}, "less than or equal to 256"),
])  # fmt: skip
def test_amounts_are_refused_by_the_schema(api, wrong, words):
    answer = window(api, "0 3 * * *", **wrong)
    assert (answer.status, words in answer.body["message"]) == (422, True)
