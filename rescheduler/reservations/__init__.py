"""The Reservation API: a pure state machine, and the engines that hold room (placeholder, Koordinator)."""
