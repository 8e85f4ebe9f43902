"""Plans of clusters so small that every placement can be reached and looked at: what the planner finds beside the best there is."""
