"""The measurement of windows and head-rooms measures what it says."""

from bench.room_sets import AGO_S, OBJECTS, ROOMS_OF_A_HEAD_ROOM, START_S, Cluster
from rescheduler.model.kinds import Kind


def test_all_windows_are_gathered_for_and_it_comes_to_rest():
    cluster = Cluster(60)
    for number in range(40):
        now_s = START_S - AGO_S + number * 1.01
        cluster.follow(cluster.look(now_s)[1], now_s)
    rooms = list(cluster.state.snapshot(START_S).reservations.values())
    assert sum(not room.pre_allocation for room in rooms) == OBJECTS * ROOMS_OF_A_HEAD_ROOM
    assert {room.owners for room in rooms if room.pre_allocation}
    assert cluster.state.counts()[Kind.RESERVATION] > OBJECTS * ROOMS_OF_A_HEAD_ROOM + OBJECTS
    assert cluster.look(START_S - AGO_S + 41)[1] == []
