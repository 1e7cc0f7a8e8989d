"""An evaluation as one HTML page with plots."""

from turnwise.learning.report.page import page

__all__ = ["page"]
