"""Versions, watches, pages: what informers rest on."""

from hypothesis import given, settings
from hypothesis import strategies as st

MAPS = "/api/v1/namespaces/default/configmaps"


def test_bookmarks_come_with_time(client, made):
    stream = client.watch(MAPS, allowWatchBookmarks="true", resourceVersion="1")
    client.post(MAPS, made.config_map("a"))
    client.events(stream)
    client.clock.now_s += 61
    (event,) = client.events(stream)
    assert event["type"] == "BOOKMARK"


def test_a_page_of_a_forgotten_version_answers_410(client, made):
    for name in "abc":
        client.post(MAPS, made.config_map(name))
    token = client.get(MAPS, limit="1")[1]["metadata"]["continue"]
    client.delete(f"{MAPS}/c")
    client.server.store.objects.forget_history()
    status, body = client.get(MAPS, **{"limit": "1", "continue": token})
    assert (status, body["reason"]) == (410, "Expired")


operations = st.lists(
    st.tuples(st.sampled_from(["create", "patch", "delete"]), st.sampled_from("abcd"), st.integers(0, 3)),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(operations, st.integers(0, 25))
def test_a_list_plus_its_watch_is_the_state(make_client, made, steps, split):
    client = make_client()
    known, stream = {}, None
    for index, (what, name, value) in enumerate([*steps, ("patch", "none", 0)]):
        if index == min(split, len(steps)):
            listed = client.get(MAPS)[1]
            known = {i["metadata"]["name"]: i for i in listed["items"]}
            stream = client.watch(MAPS, resourceVersion=listed["metadata"]["resourceVersion"])
        if what == "create":
            client.post(MAPS, made.config_map(name, x=str(value)))
        elif what == "patch":
            client.patch(f"{MAPS}/{name}", {"data": {"x": str(value)}})
        else:
            client.delete(f"{MAPS}/{name}")
    for event in client.events(stream):
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            del known[name]
        else:
            known[name] = event["object"]
    assert known == {i["metadata"]["name"]: i for i in client.get(MAPS)[1]["items"]}
