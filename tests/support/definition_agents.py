"""Agents in code, for the tests of definitions."""

from turnwise import agent


@agent
def desk(message: str) -> str:
    return "desk"


@agent(patterns=["parcel"])
def parcels(message: str) -> str:
    return "parcels"
