"""What callers may do with an app: the one place where it is checked whose is whose, whatever the protocol."""
