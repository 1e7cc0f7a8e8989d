"""Turnwise: decides, for every message, who should answer."""
