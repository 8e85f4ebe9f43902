"""What a running process takes of a newer document."""

import re

import pytest

from rescheduler.configuration.document import Configuration, keys, parse_configuration
from rescheduler.configuration.engines import with_engine
from rescheduler.configuration.live import (
    ConfigurationText,
    LiveConfiguration,
    ReloadOutcome,
    UnreadableConfigurationError,
)
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.configuration.start_only import START_ONLY, value_of
from rescheduler.reservations.settings import EngineChoice

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
OTHER_VALUES = {
    "reservations.engine": "Placeholder",
    "reservations.namespace": "elsewhere",
    "gate.mode": "Webhook",
    "gate.port": 9444,
    "gate.url": "https://10.0.0.7:9443",
    "guard.enabled": False,
    "leaderElection.enabled": False,
    "server.port": 8081,
    "server.page": True,
}


class Source:
    """A text, or an exception, that the test changes."""

    def __init__(self, content=HEAD):
        self.content = content

    def read(self):
        if isinstance(self.content, Exception):
            raise self.content
        return None if self.content is None else ConfigurationText(self.content.encode(), "here")


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def live(source):
    """Of a cluster that serves Koordinator's Reservations."""
    configuration = LiveConfiguration(source)
    configuration.start()
    configuration.decide(lambda read: with_engine(read, koordinator_served=True))
    return configuration


def setting(key, value):
    section, _, name = key.partition(".")
    return f"{section}: {{{name}: {'false' if value is False else value}}}\n"


def test_a_version_is_looked_at_once(source, live):
    assert live.reload() is None
    source.content = HEAD + "interval: 5s\n"
    assert live.reload().outcome is ReloadOutcome.TAKEN
    assert live.current.interval_s == 5
    assert live.reload() is None


def test_a_bad_first_version_is_raised(source):
    source.content = "aggressiveness: 7\n"
    with pytest.raises(ConfigurationError):
        LiveConfiguration(source).start()


def test_a_bad_newer_version_changes_nothing_and_is_told_once(source, live):
    before, version = live.current, live.version
    source.content = HEAD + "interval: soon\n"
    reload = live.reload()
    assert reload.outcome is ReloadOutcome.REFUSED
    assert "here:3: interval" in reload.problem
    assert live.reload() is None
    assert (live.current, live.version) == (before, version)
    source.content = HEAD
    assert live.reload().outcome is ReloadOutcome.TAKEN


def test_a_document_that_is_gone_leaves_the_last_good_one_in_force(source, live):
    source.content = HEAD + "aggressiveness: conservative\ninterval: 5s\n"
    live.reload()
    before, version = live.current, live.version
    source.content = None
    reload = live.reload()
    assert (reload.outcome, reload.version) == (ReloadOutcome.MISSING, version)
    assert "create it again" in reload.problem
    assert live.reload() is None, "told once"
    assert (live.current, live.version) == (before, version)
    source.content = HEAD + "interval: 7s\n"
    assert live.reload().outcome is ReloadOutcome.TAKEN
    assert live.current.interval_s == 7


def test_a_start_without_a_document_is_as_careful_as_can_be(source):
    source.content = None
    live = LiveConfiguration(source)
    live.start()
    assert live.careful
    assert live.current.policies == ()
    assert live.current.limits == parse_configuration(HEAD + "aggressiveness: 0\n", "x").limits
    assert live.reload() is None
    source.content = HEAD
    assert live.reload().outcome is ReloadOutcome.TAKEN
    assert not live.careful


def test_a_source_that_cannot_be_read_is_told_once_and_changes_nothing(source, live):
    before = live.current
    source.content = UnreadableConfigurationError("here: no such file")
    reload = live.reload()
    assert (reload.outcome, reload.problem) == (ReloadOutcome.UNREADABLE, "here: no such file")
    assert live.reload() is None
    source.content = HEAD
    assert live.reload() is None
    assert live.current is before
    source.content = UnreadableConfigurationError("here: no such file")
    assert live.reload() is not None


def test_what_is_read_at_the_start_only_are_keys_of_the_document():
    assert set(START_ONLY) <= set(keys())
    assert len(START_ONLY) == len(set(START_ONLY))
    for key in START_ONLY:
        value_of(Configuration(), key)


@pytest.mark.parametrize("key", START_ONLY)
def test_a_key_of_the_start_waits_while_the_rest_is_taken(source, live, key):
    running = value_of(live.current, key)
    source.content = HEAD + "interval: 5s\n" + setting(key, OTHER_VALUES[key])
    reload = live.reload()
    assert [change.key for change in reload.waiting] == [key]
    assert re.fullmatch(
        rf"{re.escape(key)} changes at a restart only: \S+ stays in force until then, not \S+",
        str(reload.waiting[0]),
    )
    assert value_of(live.current, key) == running
    assert live.current.interval_s == 5
    source.content = HEAD
    assert live.reload().waiting == ()


def test_the_profile_follows_the_engine_that_runs(source, live):
    assert live.current.reservations.engine is EngineChoice.KOORDINATOR
    source.content = HEAD + "reservations: {engine: Placeholder, ttl: 9m}\n"
    live.reload()
    assert live.current.reservations.engine is EngineChoice.KOORDINATOR
    assert live.current.reservations.ttl_s == 540
    assert live.current.profile.judges("koord-scheduler")


def test_naming_what_discovery_chose_is_no_change(source, live):
    source.content = HEAD + "reservations: {engine: Koordinator}\n"
    assert live.reload().waiting == ()
