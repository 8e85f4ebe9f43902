"""A plan counts what ConfigMap move-history has, from a dump as from a live cluster."""

import json
import time

import pytest

from rescheduler.controller.reading import read_cluster
from rescheduler.kube.client import KubeApi
from rescheduler.kube.transport import Response
from rescheduler.model.decode import Decoder
from rescheduler.model.past_moves import PastMove, encode_past_move
from rescheduler.model.times import parse_timestamp

from .conftest import NOW

NOW_S = parse_timestamp(NOW)


def history(**entries):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "move-history", "namespace": "rescheduler"},
        "data": entries,
    }


def other():
    return {**history(), "metadata": {"name": "mentions-move-history", "namespace": "default"}}


def planned(command, path, *more):
    result = command("plan", "--from", path, "--now", NOW, "-o", "json", *more)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


def test_a_dump_with_the_config_map_is_planned_within_what_has_begun(command, dump, untidy, tmp_path):
    begun = encode_past_move(PastMove(begun_s=NOW_S - 60))
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\nlimits: {movesPerHour: 1}\n"
    )
    options = ("--next-cycle", "--config", config)
    assert len(planned(command, dump(untidy), *options)[0]["moves"]) == 1
    plan, warnings = planned(command, dump([*untidy, history(m=begun, bad="?"), other()]), *options)
    assert plan["moves"] == []
    assert "LimitMovesPerHour" in {each["reason"] for each in plan["skipped"]}
    assert "1 object of kind ConfigMap (v1) is not used" in warnings, "only that of another name"


@pytest.mark.parametrize("name", ["move-history", "elsewhere"])
def test_a_live_cluster_is_planned_within_what_has_begun(cluster, name):
    api, _ = cluster
    path = "/api/v1/namespaces/rescheduler/configmaps/move-history"
    api.patch(path, {"data": {"m": encode_past_move(PastMove(begun_s=time.time() // 1))}}).expect(200)
    namespace = "rescheduler" if name == "move-history" else "default"
    found = read_cluster(KubeApi(api.transport), Decoder(), lambda *_: None, now_s=0.0, namespace=namespace)
    assert len(found.state.snapshot(0.0).past_moves) == (1 if namespace == "rescheduler" else 0)
    assert not found.warnings


def test_without_the_right_to_read_it_the_plan_says_what_it_does_not_know():
    class Refuses:
        def send(self, request):
            if request.path.endswith("/move-history"):
                return Response(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}')
            return Response(200, b'{"items":[],"metadata":{"resourceVersion":"1"}}')

    found = read_cluster(KubeApi(Refuses()), Decoder(), lambda *_: None, now_s=0.0)
    assert found.state.snapshot(0.0).past_moves == {}
    assert any("move-history may not be read" in warning for warning in found.warnings)
