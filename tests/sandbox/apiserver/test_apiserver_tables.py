"""What ``kubectl get`` shows: the server makes the cells of a table."""

import pytest

from kube_sandbox.apiserver.definitions import resource_of
from kube_sandbox.apiserver.tables import ResponseForm

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NOW_S = 1_800_000_000.0
STATUS = {
    "phase": "Failed",
    "owners": [{"name": "first"}],
    "conditions": [{"type": "Ready", "message": "no"}],
}
BODY = {
    "metadata": {
        "name": "a",
        "creationTimestamp": "2027-01-15T07:59:00Z",
        "annotations": {"example.com/by": "eve"},
    },
    "status": STATUS,
}


def shown(resource, obj):
    table = ResponseForm(resource, TABLE, lambda: NOW_S).one(obj)
    return dict(
        zip((one["name"] for one in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True)
    )


@pytest.mark.parametrize(
    ("path", "kind", "cell"),
    [
        (".status.phase", "string", "Failed"),
        (".status.owners[0].name", "string", "first"),
        (".status.owners[1].name", "string", ""),
        ('.status.conditions[?(@.type=="Ready")].message', "string", "no"),
        ('.status.conditions[?(@.type=="Other")].message', "string", ""),
        (r".metadata.annotations.example\.com/by", "string", "eve"),
        (".metadata.creationTimestamp", "date", "60s"),
    ],
)
def test_a_custom_resource_has_the_columns_of_its_definition(path, kind, cell):
    column = {"name": "Column", "type": kind, "jsonPath": path, "priority": 1}
    spec = {"group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}}
    made = resource_of(spec, {"name": "v1", "additionalPrinterColumns": [column]})
    assert shown(made, BODY) == {"Name": "a", "Column": cell}
