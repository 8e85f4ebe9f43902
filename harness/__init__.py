"""What proves the product and is not part of it: random histories, the comparison with kube-scheduler, real control planes."""
