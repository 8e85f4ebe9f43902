"""What a command reads while it follows its moves, and which of them it gives up."""

import msgspec
import pytest

from rescheduler.cli import following
from rescheduler.cli.errors import EXIT_FAILED
from rescheduler.cli.following import exit_code, follow_moves, why_not
from rescheduler.cli.migration_client import MigrationClient
from rescheduler.kube.transport import TransportError
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import LABEL_GROUP
from rescheduler.model.selectors import LabelSet
from tests import records


class Client(MigrationClient):
    """A cluster in which the moves are as the next of ``rounds`` says, each time that they are listed."""

    def __init__(self, *rounds):
        super().__init__(None)
        self.rounds = list(rounds)
        self.asked = []
        self.withdrawn = []

    def select(self, namespace, label=""):
        self.asked.append((namespace, label))
        shown = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        return [move for move in shown if move.key not in self.withdrawn]

    def withdraw(self, moves):
        self.withdrawn += [move.key for move in moves]
        return {}


def waits(node):
    return records.move("waits", MigrationPhase.RESERVING, reason="Reserving", node_name=node)


def other(phase, **status):
    return records.move("other", phase, node_name="n2", started_at_s=1.0, **status)


@pytest.mark.parametrize(("node", "withdrawn"), [("n2", []), ("n3", ["waits"])])
def test_a_move_that_waits_for_a_node_onto_which_others_move_is_not_given_up(monkeypatch, node, withdrawn):
    monkeypatch.setattr(following, "LOST_AFTER_S", 0.0)
    monkeypatch.setattr(following, "POLL_S", 0.0)
    evicting = [waits(node), other(MigrationPhase.EVICTING, eviction_requested_at_s=2.0)]
    landed = other(MigrationPhase.SUCCEEDED, evicted_at_s=2.0, finished_at_s=3.0)
    ended = [records.move("waits", MigrationPhase.SUCCEEDED, node_name=node, finished_at_s=4.0), landed]
    client, seen = Client(evicting, evicting, ended), {}
    keys = [move.key for move in evicting]
    follow_moves(client, keys, ttl_s=5.0, how_to_go_on="", gives_up=lambda _: True, seen=seen)
    assert [key.name for key in client.withdrawn] == withdrawn
    assert {key.name for key in seen} == {"waits", "other"} - set(withdrawn)


def test_moves_that_ended_earlier_are_read_once_however_long_others_are_followed(monkeypatch):
    """A namespace keeps those of the last hour: up to two thousand, which no command needs twice a second."""
    monkeypatch.setattr(following, "POLL_S", 0.0)
    label = LabelSet({LABEL_GROUP: "ours"})
    begun = msgspec.structs.replace(other(MigrationPhase.EVICTING), labels=label)
    landed = msgspec.structs.replace(other(MigrationPhase.SUCCEEDED, finished_at_s=3.0), labels=label)
    earlier = [records.move(f"earlier-{i}", MigrationPhase.SUCCEEDED, finished_at_s=1.0) for i in range(3)]
    client = Client([*earlier, begun], [begun], [landed])
    found = follow_moves(client, [begun.key], ttl_s=5.0, how_to_go_on="")
    assert found[begun.key].status.phase is MigrationPhase.SUCCEEDED
    namespace = begun.namespace
    assert client.asked == [(namespace, ""), *[(namespace, f"{LABEL_GROUP}=ours")] * 2]


def test_moves_that_cannot_be_followed_any_more_go_on_and_it_is_said_how_to_follow_them():
    class Away(Client):
        def select(self, *_):
            raise TransportError("connection refused")

    with pytest.raises(TransportError) as said:
        follow_moves(Away(), [waits("n2").key], ttl_s=5.0, how_to_go_on="The moves go on.")
    assert said.value.__notes__ == ["The moves go on."]


def test_a_move_whose_object_is_deleted_meanwhile_has_failed_and_says_so(monkeypatch):
    """As with its namespace, while its pod ends."""
    monkeypatch.setattr(following, "POLL_S", 0.0)
    evicting = other(MigrationPhase.EVICTING, eviction_requested_at_s=2.0)
    seen = {}
    found = follow_moves(Client([evicting], []), [evicting.key], ttl_s=5.0, how_to_go_on="", seen=seen)
    words = f"{evicting.namespace}/{evicting.pod_name}: Failed: Deleted: its PodMigration was deleted before it had ended"
    assert why_not([evicting.key], found) == [words]
    assert exit_code([evicting.key], found) == EXIT_FAILED
    assert seen[evicting.key].status.phase is MigrationPhase.EVICTING
