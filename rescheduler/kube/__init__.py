"""The only package that talks to an API server: transport, client, informers, elector, eviction, events."""
