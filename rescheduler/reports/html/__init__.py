"""A Plan as one self-contained HTML page: no scripts, nothing fetched, the same bytes for the same plan."""

from rescheduler.reports.html.page import plan_html

__all__ = ["plan_html"]
