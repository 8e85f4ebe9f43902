"""Reports of a Plan or an Explanation as text, JSON, YAML or HTML. The same input gives the same bytes."""
