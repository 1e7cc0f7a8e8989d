"""Artifact stores: in memory, on disk, and in an object store."""
