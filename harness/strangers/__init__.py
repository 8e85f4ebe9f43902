"""Other people's programs, unmodified, beside a test control plane: built once from the Go module proxy, never copied into this project."""
