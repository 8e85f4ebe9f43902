"""Who is looked at in a round: fair by namespace, bounded, and nobody is forgotten."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.coordination.turns import AT_ONCE, LONGEST_REST_S, Turns, Waiting
from rescheduler.model.records import ObjectKey


def waiting(namespace, count, *, generation=1):
    return [
        Waiting(ObjectKey(namespace, f"m{number:04}"), namespace, float(number), generation)
        for number in range(count)
    ]


def fruitless(turns, turn, now_s):
    for key in turn.keys:
        turns.looked(key, now_s, None, sure=False)


def of(turn, namespace):
    return sorted(key.name for key in turn.keys if key.namespace == namespace)


def test_few_are_looked_at_in_every_round():
    turns = Turns()
    for second in range(20):
        turn = turns.next(waiting("a", AT_ONCE), float(second) / 10)
        assert len(turn.keys) == AT_ONCE
        assert turn.wake_at_s is None
        fruitless(turns, turn, float(second) / 10)


def test_few_of_which_nothing_comes_rest_if_that_is_asked_for():
    for few_rest in (True, False):
        turns = Turns(few_rest=few_rest)
        turn = turns.next(waiting("a", 2), 0.0)
        first, second = sorted(turn.keys)
        turns.looked(first, 0.0, 50.0, sure=True)
        turns.looked(second, 0.0, 50.0, sure=False)
        assert of(turns.next(waiting("a", 2), 1.0), "a") == (["m0001"] if few_rest else ["m0000", "m0001"])
        assert len(turns.next(waiting("a", 2, generation=2), 2.0).keys) == 2
        assert len(turns.next(waiting("a", 2), 50.0).keys) == 2


def test_a_round_is_bounded_and_the_oldest_go_first():
    turns = Turns()
    turn = turns.next(waiting("a", 5000), 0.0)
    assert of(turn, "a") == [f"m{number:04}" for number in range(AT_ONCE)]
    assert turn.wake_at_s == 0.0, "there are others that are due"


def test_nobody_waits_for_the_objects_of_another_namespace():
    turns = Turns()
    for second in range(50):
        now_s = float(second)
        turn = turns.next([*waiting("hostile", 5000), *waiting("shop", 3)], now_s)
        assert of(turn, "shop") == ["m0000", "m0001", "m0002"]
        assert len(turn.keys) == AT_ONCE
        fruitless(turns, turn, now_s)


def test_as_many_namespaces_as_like_take_turns():
    turns, seen = Turns(), set()
    everyone = [one for number in range(5 * AT_ONCE) for one in waiting(f"ns{number:03}", 2)]
    for _ in range(5):
        turn = turns.next(everyone, 0.0)
        assert not seen & {key.namespace for key in turn.keys}
        seen |= {key.namespace for key in turn.keys}
        fruitless(turns, turn, 0.0)
    assert len(seen) == 5 * AT_ONCE


def test_looks_that_lead_to_nothing_become_rare():
    turns, looks, now_s = Turns(), 0, 0.0
    many = waiting("a", 10 * AT_ONCE)
    while now_s < 3600.0:
        turn = turns.next(many, now_s)
        looks += len(turn.keys)
        fruitless(turns, turn, now_s)
        now_s = max(now_s + 0.25, turn.wake_at_s)
    assert looks <= len(many) * (3600.0 / LONGEST_REST_S + 10)


def test_a_wait_whose_end_is_known_is_not_looked_at_before():
    turns = Turns(at_once=2)
    three = waiting("a", 3)
    first = turns.next(three, 0.0)
    for key in first.keys:
        turns.looked(key, 0.0, 1800.0, sure=True)
    second = turns.next(three, 1.0)
    assert of(second, "a") == ["m0002"]
    fruitless(turns, second, 1.0)
    assert of(turns.next(three, 1000.0), "a") == ["m0002"]
    assert of(turns.next(three, 1800.0), "a") == ["m0000", "m0001"]


def test_a_change_of_the_spec_and_a_new_configuration_are_looked_at_at_once():
    turns = Turns(at_once=2)
    three = waiting("a", 3)
    turns.next(three, 0.0)
    turns.next(three, 0.0)
    assert turns.next(three, 0.1).keys == frozenset()
    changed = [three[0], three[1]._replace(generation=2), three[2]]
    assert of(turns.next(changed, 0.1), "a") == ["m0001"]
    turns.restart()
    assert of(turns.next(changed, 0.1), "a") == ["m0000", "m0001"]


def test_one_that_goes_on_goes_first():
    turns = Turns(at_once=2)
    many = waiting("a", 9)
    turns.next(many, 0.0)
    turns.again(many[1].key)
    assert of(turns.next(many, 0.0), "a") == ["m0001", "m0002"]


@settings(max_examples=30)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(1, 8))
def test_everybody_is_looked_at_in_the_end_whatever_the_others_have(sizes, at_once):
    turns, now_s = Turns(at_once=at_once), 0.0
    everyone = [one for number, size in enumerate(sizes) for one in waiting(f"ns{number}", size)]
    left = {one.key for one in everyone}
    for _ in range(len(everyone) * (1 + len(sizes))):
        if not left:
            break
        turn = turns.next(everyone, now_s)
        assert len(turn.keys) <= at_once
        left -= turn.keys
        fruitless(turns, turn, now_s)
        now_s += 0.02
    assert not left


def test_what_is_gone_is_forgotten():
    turns = Turns()
    many = waiting("a", 5)
    turns.next(many, 0.0)
    turns.forget({many[0].key})
    assert set(turns._looks) == {many[0].key}
