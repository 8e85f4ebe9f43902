"""What a server answers about nodes: objects, lists, bookmarks, and a watch on which nothing happens."""


def node(name, version="1", **labels):
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": version, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def node_list(*items, version="10", token=""):
    return {
        "kind": "NodeList",
        "metadata": {"resourceVersion": version, "continue": token},
        "items": list(items),
    }


def bookmark(version, *, end=False):
    notes = {"k8s.io/initial-events-end": "true"} if end else {}
    return {"kind": "Node", "metadata": {"resourceVersion": version, "annotations": notes}}


def quiet(exchange):
    exchange.open_stream()
    exchange.hang()
