"""Renders an evaluation as a self-contained HTML page with plots."""

from turnwise.learning.report.page import page

__all__ = ["page"]
