"""Lists with paging, selectors, and watches: what the informers rest on."""

import itertools

import pytest


@pytest.fixture
def config_maps(world):
    for number in range(7):
        body = {"metadata": {"name": f"c{number}", "labels": {"parity": "odd" if number % 2 else "even"}}}
        world.api.create(world.path("configmaps"), body).expect(201)
    return world.path("configmaps")


def names(answer):
    return [item["metadata"]["name"] for item in answer.items if item["metadata"]["name"].startswith("c")]


def create(api, path, name, **metadata):
    return api.create(path, {"metadata": {"name": name, **metadata}}).expect(201)


def test_pages_add_up_to_the_list_at_one_version(api, config_maps):
    first = api.get(config_maps, limit="3").expect(200)
    assert len(first.items) == 3
    assert first.body["metadata"]["remainingItemCount"] >= 4
    create(api, config_maps, "c9")
    found, page = list(first.items), first
    while page.body["metadata"].get("continue"):
        page = api.get(config_maps, limit="3", **{"continue": page.body["metadata"]["continue"]}).expect(200)
        assert page.version == first.version
        found += page.items
    listed = [item["metadata"]["name"] for item in found]
    assert listed == sorted(listed)
    assert {f"c{n}" for n in range(7)} <= set(listed)
    assert "c9" not in listed


@pytest.mark.parametrize(("selector", "expected"), [
    ("parity=odd", ["c1", "c3", "c5"]),
    ("parity!=odd,parity", ["c0", "c2", "c4", "c6"]),
    ("parity in (even,none)", ["c0", "c2", "c4", "c6"]),
    ("parity notin (even),parity", ["c1", "c3", "c5"]),
    ("!parity", []),
])  # fmt: skip
def test_label_selectors(api, config_maps, selector, expected):
    assert names(api.get(config_maps, labelSelector=selector).expect(200)) == expected


def test_field_selectors_of_pods(world):
    world.pod("bound", nodeName=world.node("a"))
    world.pod("free", gates=["example.com/wait"])
    pods = world.path("pods")
    node = world.get_pod("bound")["spec"]["nodeName"]

    def found(selector):
        return [
            pod["metadata"]["name"] for pod in world.api.get(pods, fieldSelector=selector).expect(200).items
        ]

    assert found(f"spec.nodeName={node}") == ["bound"]
    assert found("spec.nodeName=") == ["free"]
    assert found("spec.nodeName!=") == ["bound"]
    assert found("metadata.name=free") == ["free"]
    assert world.api.get(pods, fieldSelector="spec.nonsense=1").status == 400


def test_a_watch_from_a_list_sees_each_change_once_in_order(api, config_maps):
    listed = api.get(config_maps).expect(200)
    path = f"{config_maps}/c0"
    api.patch(path, {"data": {"a": "1"}}).expect(200)
    create(api, config_maps, "d0")
    api.delete(path).expect(200)
    events = list(itertools.islice(api.watch(config_maps, seconds=5, resourceVersion=listed.version), 3))
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("MODIFIED", "c0"),
        ("ADDED", "d0"),
        ("DELETED", "c0"),
    ]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(listed.version)
    assert events[0]["object"]["kind"] == "ConfigMap"


def test_a_watch_with_a_selector_sees_objects_come_into_it_and_go(api, config_maps):
    version = api.get(config_maps).expect(200).version
    api.patch(f"{config_maps}/c0", {"metadata": {"labels": {"parity": "odd"}}}).expect(200)
    api.patch(f"{config_maps}/c0", {"data": {"a": "1"}}).expect(200)
    api.patch(f"{config_maps}/c0", {"metadata": {"labels": {"parity": "even"}}}).expect(200)
    watch = api.watch(config_maps, seconds=5, resourceVersion=version, labelSelector="parity=odd")
    events = [(event["type"], event["object"]["metadata"]["name"]) for event in itertools.islice(watch, 3)]
    assert events == [("ADDED", "c0"), ("MODIFIED", "c0"), ("DELETED", "c0")]


def test_a_watch_without_a_version_begins_with_what_is_there(api, config_maps):
    events = list(itertools.islice(api.watch(config_maps, seconds=5, labelSelector="parity=odd"), 3))
    assert sorted((event["type"], event["object"]["metadata"]["name"]) for event in events) == [
        ("ADDED", "c1"),
        ("ADDED", "c3"),
        ("ADDED", "c5"),
    ]


def test_a_watch_ends_after_its_time(api, config_maps):
    version = api.get(config_maps).expect(200).version
    assert list(api.watch(config_maps, seconds=1, resourceVersion=version)) == []


def test_a_version_before_the_kept_history_is_gone(backend, config_maps):
    backend.api.patch(f"{config_maps}/c0", {"data": {"a": "1"}}).expect(200)
    backend.forget_history()
    first = next(backend.api.watch(config_maps, seconds=5, resourceVersion="1"))
    assert first["type"] == "ERROR"
    status = first["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")


def test_watch_list_streams_the_list_and_marks_its_end(api, config_maps):
    watch = api.watch(
        config_maps, seconds=10, sendInitialEvents="true", resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true", labelSelector="parity=even",
    )  # fmt: skip
    events = list(itertools.islice(watch, 5))
    assert [event["type"] for event in events] == ["ADDED"] * 4 + ["BOOKMARK"]
    assert events[-1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) > 0
