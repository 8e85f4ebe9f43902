"""CEL as Kubernetes uses it, on top of a CEL library: rewriting, functions, evaluation, rules of schemas."""
