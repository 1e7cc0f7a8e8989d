"""Stores: the built-in session and artifact stores."""
