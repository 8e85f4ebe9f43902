"""The state that the live page shows, as one JSON document, and its trends. Pure."""
