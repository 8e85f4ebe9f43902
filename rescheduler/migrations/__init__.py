"""The PodMigration API: a pure state machine of one move, from asked-for to landed."""
