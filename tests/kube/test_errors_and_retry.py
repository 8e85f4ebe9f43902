import pytest

from rescheduler.kube import errors
from rescheduler.kube.retry import NO_RETRY, Retry
from rescheduler.kube.transport import TransportError


@pytest.fixture
def retry(clock):
    return Retry(sleep=clock.sleep)


def failing(*failures, result="done"):
    left = list(failures)

    def operation():
        if left:
            raise left.pop(0)
        return result

    return operation


@pytest.mark.parametrize(("code", "reason", "expected"), [
    (400, "BadRequest", errors.RejectedError),
    (401, "Unauthorized", errors.UnauthorizedError),
    (403, "Forbidden", errors.ForbiddenError),
    (404, "NotFound", errors.NotServedError),
    (409, "Conflict", errors.ConflictError),
    (409, "AlreadyExists", errors.AlreadyExistsError),
    (410, "Expired", errors.ExpiredError),
    (422, "Invalid", errors.RejectedError),
    (429, "TooManyRequests", errors.TryLaterError),
    (500, "InternalError", errors.TryLaterError),
    (504, "Timeout", errors.TryLaterError),
])  # fmt: skip
def test_errors_are_named_by_who_must_act(code, reason, expected, refusal):
    response = refusal(code, reason, "words", causes=[{"reason": "X", "message": "m", "field": "f"}])
    error = errors.error_of(response.status, response.body)
    assert type(error) is expected
    assert (error.status, error.reason, error.message) == (code, reason, "words")
    assert error.has_cause("X")
    assert not error.has_cause("Y")


@pytest.mark.parametrize(
    "body", [b"", b"<html>503</html>", b"\xff\xfe", b"null", b"[1]", b'{"kind":"Pod","status":{}}']
)
def test_a_proxys_answer_is_an_error_too(body):
    error = errors.error_of(503, body, {"retry-after": "7"})
    assert isinstance(error, errors.TryLaterError)
    assert error.retry_after_s == 7.0


@pytest.mark.parametrize(("header", "details", "expected"), [
    ("5", {}, 5.0),
    ("", {"retryAfterSeconds": 3}, 3.0),
    ("", {"retryAfterSeconds": 0}, None),
    ("0", {}, None),
    ("", {"retryAfterSeconds": -5}, None),
    ("-5", {}, None),
    ("3600", {}, errors.MOST_RETRY_AFTER_S),
    ("9" * 400, {}, errors.MOST_RETRY_AFTER_S),
    ("", {"retryAfterSeconds": 1e300}, errors.MOST_RETRY_AFTER_S),
    ("Wed, 21 Oct", {}, None),
])  # fmt: skip
def test_retry_after(header, details, expected, refusal):
    response = refusal(429, "TooManyRequests", "", **details)
    assert errors.error_of(429, response.body, {"retry-after": header}).retry_after_s == expected


def test_what_time_cures_is_tried_again(retry, clock):
    operation = failing(TransportError("reset"), errors.TryLaterError(503), errors.TryLaterError(429))
    assert retry.call(operation, repeatable=True) == "done"
    assert clock.slept == [0.2, 0.4, 0.8]


def test_retry_after_is_obeyed_on_top_of_the_jitter(retry, clock):
    retry.call(failing(errors.TryLaterError(429, retry_after_s=5.0)), repeatable=True)
    assert clock.slept == [5.2]


def test_a_deadline_ends_it_not_a_number_of_tries(retry, clock):
    with pytest.raises(TransportError):
        retry.call(failing(*[TransportError("x")] * 100), repeatable=True)
    assert clock.slept == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 8.0, 8.0])
    assert clock.now_s < 30.0


@pytest.mark.parametrize("error", [
    errors.NotFoundError(404),
    errors.ForbiddenError(403),
    errors.ConflictError(409),
    errors.RejectedError(422),
    errors.ExpiredError(410),
])  # fmt: skip
def test_what_time_does_not_cure_is_not_tried_again(retry, clock, error):
    with pytest.raises(type(error)):
        retry.call(failing(error), repeatable=True)
    assert clock.slept == []


def test_a_call_that_may_have_been_done_is_not_repeated_unless_it_is_harmless(retry, clock):
    with pytest.raises(TransportError):
        retry.call(failing(TransportError("lost answer")), repeatable=False)
    with pytest.raises(errors.TryLaterError):
        retry.call(failing(errors.TryLaterError(500)), repeatable=False)
    assert clock.slept == []
    assert retry.call(failing(errors.TryLaterError(429)), repeatable=False) == "done"


def test_no_retry_gives_every_error_at_once():
    with pytest.raises(TransportError):
        NO_RETRY.call(failing(TransportError("x")), repeatable=True)
