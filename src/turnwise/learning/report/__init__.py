"""Renders an evaluation as a self-contained HTML page with plots."""

from turnwise.learning.report.pages import page

__all__ = ["page"]
