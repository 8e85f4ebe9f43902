"""The PodMigration API: the pure state machine of one move."""
