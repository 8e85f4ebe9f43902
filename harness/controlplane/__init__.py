"""Real control planes on the loopback interface: built from the Go module proxy, started, filled, and read by tests."""
