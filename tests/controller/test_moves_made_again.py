"""A PodMigration that is deleted and made again at once, as by ``kubectl replace --force``."""

import pytest
from scenes import Scene


@pytest.mark.parametrize("how_far", ["its first step", "its intent to evict"])
def test_a_move_that_is_made_again_has_not_begun(how_far):
    """What is remembered of the earlier one of that name is not its own."""
    scene = Scene({"n1": 4, "n2": 4, "n3": 4}).workload("Deployment", "web", ["n1", "n1", "n1"])
    scene.start()
    scene.advance(3.0)
    first, second, _ = scene.ready()
    scene.move(first, "n2", name="again")
    whole = how_far == "its first step"
    scene.until(lambda: bool(scene.calls.of(lambda c: "/podmigrations/" in c.path and (whole or c.intends))))
    scene.api.delete(scene.get_move("again"))
    scene.move(second, "n3", name="again", paused=True)
    other = scene.move(second, "n2", name="other")
    scene.until(lambda: scene.over(other))
    assert scene.reason(other) == "Landed", scene.state(other)
    assert scene.faults == []
