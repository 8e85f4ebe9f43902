"""Wires the loop: informers -> ClusterState -> Snapshot -> Plan -> objects -> step -> actions -> API server."""
