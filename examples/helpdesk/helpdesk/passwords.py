"""Passwords and codes are kept as salted hashes only."""

import hashlib
import hmac
import secrets


def hashed(secret: str) -> str:
    """Salt and scrypt hash, in hexadecimal."""
    salt = secrets.token_bytes(16)
    return f"{salt.hex()}:{_scrypt(secret, salt).hex()}"


def matches(secret: str, kept: str) -> bool:
    salt, _, digest = kept.partition(":")
    return hmac.compare_digest(_scrypt(secret, bytes.fromhex(salt)), bytes.fromhex(digest))


def _scrypt(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, n=2**12, r=8, p=1, dklen=32)


def new_code() -> str:
    """Six digits."""
    return f"{secrets.randbelow(1_000_000):06d}"


def new_password() -> str:
    return secrets.token_urlsafe(9)
