"""Where the document comes from: what is read when, and that nobody waits for it."""

import base64
import os
import time

import pytest

from kube_sandbox.sandbox import Sandbox
from rescheduler.configuration.live import LiveConfiguration, ReloadOutcome, UnreadableConfigurationError
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.controller.configuration_sources import ConfigMapSource, FileSource
from rescheduler.kube.client import KubeApi
from rescheduler.kube.connection import connect
from rescheduler.kube.errors import ForbiddenError
from rescheduler.kube.transport import Response
from tests.waiting import until

HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_file_is_read_again_only_after_a_change(tmp_path, mocker):
    path = tmp_path / "config.yaml"
    path.write_text("one")
    source = FileSource(str(path))
    read = mocker.spy(type(path), "read_bytes")
    assert {source.read().content for _ in range(3)} == {b"one"}
    assert read.call_count == 1
    path.write_text("other")
    assert source.read().content == b"other"
    assert source.read().origin == str(path)


def test_a_swapped_link_is_a_change_whatever_its_times(tmp_path):
    """So the kubelet brings a new version of a mounted ConfigMap."""
    link = tmp_path / "config.yaml"
    for name in ("v1", "v2"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1, 1))
    link.symlink_to("v1")
    source = FileSource(str(link))
    assert source.read().content == b"v1"
    (tmp_path / "new").symlink_to("v2")
    (tmp_path / "new").rename(link)
    assert source.read().content == b"v2"


def test_a_file_that_is_gone_is_named_and_found_again(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("one")
    source = FileSource(str(path))
    source.read()
    path.unlink()
    with pytest.raises(UnreadableConfigurationError, match=r"config\.yaml: No such file"):
        source.read()
    path.write_text("two")
    assert source.read().content == b"two"


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    kubeconfig = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with Sandbox(clock=time.time) as cluster:
        cluster.start(kubeconfig=kubeconfig)
        yield KubeApi(connect(str(kubeconfig)))


@pytest.fixture
def name(request):
    return request.node.name.replace("_", "-")


@pytest.fixture
def source(api, name):
    source = ConfigMapSource(api, "default", name)
    yield source
    source.stop()


@pytest.fixture
def write(api, name):
    def put(**data):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        api.apply(f"{CONFIG_MAPS}/{name}", body, manager="rescheduler")

    return put


def content(source):
    found = source.read()
    return found.content.decode() if found else None


def test_changes_come_by_the_watch_and_not_by_calls(api, source, name, write, mocker):
    write(**{"config.yaml": "one"})
    get = mocker.spy(api, "get")
    assert content(source) == "one"
    source.start()
    until(lambda: source.informer.synced)
    write(**{"config.yaml": "two"})
    until(lambda: content(source) == "two")
    api.merge_patch(f"{CONFIG_MAPS}/{name}", {"data": {"config.yaml": None, "other": "key"}})
    until(lambda: content(source) is None)
    write(**{"config.yaml": "three"})
    until(lambda: content(source) == "three")
    assert get.call_count == 1


def test_what_kubectl_stores_as_binary_data_is_the_document_and_refused_as_no_utf8(api, source, name, write):
    write(**{"config.yaml": HEAD})
    live = LiveConfiguration(source)
    live.start()
    source.start()
    until(lambda: source.informer.synced)
    coded = base64.b64encode(f"{HEAD}# caf\xe9\n".encode("latin-1")).decode()
    patch = {"data": {"config.yaml": None}, "binaryData": {"config.yaml": coded}}
    api.merge_patch(f"{CONFIG_MAPS}/{name}", patch)
    until(lambda: source.read().content != HEAD.encode())
    reload = live.reload()
    assert reload.outcome is ReloadOutcome.REFUSED
    assert reload.problem.endswith("config.yaml:3: the text is not UTF-8: byte 0xe9 (save the file as UTF-8)")
    with pytest.raises(ConfigurationError, match="the text is not UTF-8"):
        LiveConfiguration(ConfigMapSource(api, "default", name)).start()


def test_a_config_map_that_is_made_later_is_seen_and_gone_when_deleted(api, source, name, write):
    assert content(source) is None
    source.start()
    write(**{"config.yaml": "one"})
    until(lambda: content(source) == "one")
    api.delete(f"{CONFIG_MAPS}/{name}")
    until(lambda: content(source) is None)


def test_a_config_map_that_is_deleted_before_the_watch_begins_is_gone(api, source, name, write):
    write(**{"config.yaml": "one"})
    assert content(source) == "one"
    api.delete(f"{CONFIG_MAPS}/{name}")
    source.start()
    until(lambda: content(source) is None)


def test_another_config_map_of_the_namespace_is_not_listened_to(api, source, write):
    write(**{"config.yaml": "one"})
    content(source)
    source.start()
    until(lambda: source.informer.synced)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "neighbour"}}
    api.apply(f"{CONFIG_MAPS}/neighbour", other | {"data": {"config.yaml": "theirs"}}, manager="rescheduler")
    time.sleep(0.3)
    assert content(source) == "one"
    assert source.informer.objects == 1


def test_a_missing_right_ends_the_start_with_the_servers_words(api, source, mocker):
    body = b'{"kind":"Status","status":"Failure","reason":"Forbidden","message":"no right","code":403}'
    mocker.patch.object(api.transport, "send", return_value=Response(403, body, {}))
    with pytest.raises(ForbiddenError, match="no right"):
        source.read()
