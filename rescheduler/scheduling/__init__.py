"""kube-scheduler's rules (1.37, default profile): filters and scores, exact, for all nodes at once.

One module per scheduler plugin, named like it. Pure. What is left out on purpose (DRA, other
schedulers' plugins) is refused openly: such pods are not movable.
"""
