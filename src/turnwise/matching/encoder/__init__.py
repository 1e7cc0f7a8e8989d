"""Texts into vectors on this machine: no network, no key, no framework."""
