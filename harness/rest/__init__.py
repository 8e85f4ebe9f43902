"""Does a cluster that nobody else changes come to rest: random clusters, planned, moved and planned again."""
