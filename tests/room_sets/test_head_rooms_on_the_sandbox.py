"""HeadRooms at work on the sandbox, in virtual time: they stand, are made again when used, and bend to real need."""

from window_scene import HEAD_ROOM, NODE, WindowScene, template

from kube_sandbox.controllers.unstructured import POD, spec, status


def standing(**more):
    scene = WindowScene(nodes=2, cpu="8")
    scene.head_room(**more)
    scene.until(
        lambda: (
            scene.state("spare", HEAD_ROOM).get("rooms") == f"{more.get('rooms', 2)}/{more.get('rooms', 2)}"
        ),
        60,
    )
    return scene


def complete(scene):
    (told,) = [c for c in scene.state("spare", HEAD_ROOM)["conditions"] if c["type"] == "Complete"]
    return told


def priority(scene, name, value):
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    scene.api.create(body)


def test_a_room_that_is_used_is_made_again():
    scene = standing()
    scene.owner("a")
    scene.until(lambda: scene.node_of("a"), 10)
    scene.until(lambda: scene.state("spare", HEAD_ROOM)["rooms"] == "2/2", 30)
    assert len(scene.live()) == 2
    assert complete(scene)["status"] == "True"


def test_what_is_missing_is_said():
    scene = WindowScene(nodes=2, cpu="4")
    scene.head_room(rooms=3, template=template("3"))
    scene.until(lambda: scene.state("spare", HEAD_ROOM).get("rooms") == "2/3", 60)
    scene.advance(5)
    assert len(scene.state("spare", HEAD_ROOM)["nodes"]) == 2
    assert complete(scene)["status"] == "False"
    assert "Insufficient cpu" in complete(scene)["message"]


def test_fewer_rooms_and_no_head_room_give_the_rest_back():
    scene = standing()
    scene.change("spare", HEAD_ROOM, rooms=1)
    scene.until(lambda: len(scene.live()) == 1, 20)
    scene.api.delete(scene.api.get(HEAD_ROOM, "", "spare"))
    scene.until(lambda: not scene.live(), 20)


def test_rooms_are_spread_over_the_values_of_a_label():
    scene = WindowScene(nodes=4, cpu="8")
    for number, node in enumerate(scene.api.list(NODE)):
        scene.api.patch(node, {"metadata": {"labels": {"zone": f"z{number % 2}"}}})
    scene.head_room(spreadOver="zone", rooms=4)
    scene.until(lambda: scene.state("spare", HEAD_ROOM).get("rooms") == "4/4", 60)
    zones = {n["metadata"]["name"]: n["metadata"]["labels"]["zone"] for n in scene.api.list(NODE)}
    found = [zones[name] for name in scene.state("spare", HEAD_ROOM)["nodes"]]
    assert sorted(found) == ["z0", "z0", "z1", "z1"]


def filled(*, urgent=False, **more):
    """Both nodes are full but for the rooms; nobody has a higher priority than who fills them."""
    scene = standing(template=template("4"), **more)
    priority(scene, "urgent", 100)
    filler = {"priorityClassName": "urgent"} if urgent else {}
    for name in scene.state("spare", HEAD_ROOM)["nodes"]:
        scene.pod(f"filler-{name}", "4", node=name, **filler)
    scene.until(lambda: all(scene.node_of(f"filler-n{n}") for n in (0, 1)), 20)
    return scene


def test_a_pod_of_higher_priority_is_not_kept_out():
    scene = filled(urgent=True)
    scene.pod("urgent", "3", priorityClassName="urgent")
    scene.until(lambda: scene.node_of("urgent"), 30)
    scene.advance(30)
    assert len(scene.told("GivenBack")) == 1
    assert scene.state("spare", HEAD_ROOM)["rooms"] == "1/2", "the other room stands"
    assert all(scene.api.get(POD, "default", f"filler-n{n}") for n in (0, 1)), "nobody is preempted"


def test_a_pod_of_the_same_priority_waits_unless_the_rooms_are_for_any_pod():
    scene = filled()
    scene.pod("plain", "3")
    scene.advance(60)
    assert scene.node_of("plain") == ""
    assert not scene.told("GivenBack")
    scene.change("spare", HEAD_ROOM, yieldTo="AnyPod")
    scene.until(lambda: scene.node_of("plain"), 30)


def test_the_class_of_the_template_says_whose_priority_is_higher():
    """A number would be written by admission: the template has the name of its class only."""
    scene = WindowScene(nodes=2, cpu="8")
    for name, value in (("web", 10), ("less", 5), ("more", 11)):
        priority(scene, name, value)
    wish = template("4")
    wish["spec"]["priorityClassName"] = "web"
    scene.head_room(template=wish)
    scene.until(lambda: scene.state("spare", HEAD_ROOM).get("rooms") == "2/2", 60)
    for number in (0, 1):
        scene.pod(f"filler-{number}", "4", node=f"n{number}", priorityClassName="more")
    scene.until(lambda: all(scene.node_of(f"filler-{n}") for n in (0, 1)), 20)
    scene.pod("less", "3", priorityClassName="less")
    scene.advance(60)
    assert (scene.node_of("less"), scene.told("GivenBack")) == ("", [])
    scene.pod("more", "3", priorityClassName="more")
    scene.until(lambda: scene.node_of("more"), 30)


def test_a_pod_that_no_room_would_help_gets_none():
    scene = filled(yieldTo="AnyPod")
    scene.pod("large", "20")
    scene.pod("elsewhere", "3", node="n9")
    scene.advance(30)
    assert not scene.told("GivenBack")
    assert len([r for r in scene.live() if status(r)["phase"] == "Available"]) == 2
    assert spec(scene.live()[0])["owners"]


def test_an_owner_that_is_larger_than_a_room_does_not_empty_them():
    scene = filled(yieldTo="AnyPod")
    scene.owner("large", "5")
    scene.advance(30)
    assert not scene.told("GivenBack")
    assert scene.state("spare", HEAD_ROOM)["rooms"] == "2/2"
