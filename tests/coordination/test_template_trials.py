"""What the API server makes of a template is asked once, and again where it was refused and may be taken by now."""

from rescheduler.coordination.dry_run_creations import TEMPLATE_REFUSED_S, TemplateTrials


def test_that_it_is_taken_is_kept_and_that_it_is_refused_is_not():
    trials = TemplateTrials()
    assert trials.of(b"a", 0.0) is None
    trials.answered(b"a", "", 10.0)
    trials.answered(b"b", "must be less than or equal to cpu limit", 10.0)
    assert (trials.of(b"a", 10.0), trials.of(b"b", 10.0)) == ("", "must be less than or equal to cpu limit")
    assert trials.of(b"b", 10.0 + TEMPLATE_REFUSED_S) is None
    assert trials.of(b"a", 1e9) == ""
    trials.answered(b"b", "", 100.0)
    assert trials.of(b"b", 1e9) == ""


def test_of_very_many_the_latest_are_kept():
    trials = TemplateTrials()
    for number in range(1_500):
        trials.answered(b"%d" % number, "", 0.0)
    assert trials.of(b"0", 0.0) is None
    assert trials.of(b"1499", 0.0) == ""
