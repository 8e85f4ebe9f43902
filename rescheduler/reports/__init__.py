"""Plan and Explanation -> text, JSON, YAML, HTML. The same input gives the same bytes."""
