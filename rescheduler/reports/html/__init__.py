"""A Plan and the live page as HTML: self-contained, nothing fetched, the same bytes for the same plan."""
