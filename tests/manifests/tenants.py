"""Rooms of tenants, for the tests of what they can and cannot do."""

import secrets

from harness import documents


def room(owners, *, cpu="1", memory="1Gi"):
    name = f"secure-{secrets.token_hex(4)}"
    return documents.reservation(name, documents.pod_spec(cpu, memory), owners, ttl="5m")
