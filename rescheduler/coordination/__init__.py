"""How the hand-overs, rooms and moves of one cluster depend on each other. Pure; used by the controller, above both machines."""
