"""Calls to the API server as values: one constructor function for each thing that this program does. Pure."""
