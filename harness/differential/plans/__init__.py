"""Whole plans beside kube-scheduler's own code: every move, in its turn, with the pod that really comes back."""
