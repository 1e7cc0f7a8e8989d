"""Helpers that several protocols share: content conversion, waits, ids in URLs, and answer texts."""
