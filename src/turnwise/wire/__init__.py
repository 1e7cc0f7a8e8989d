"""Request and response bodies of the native API, shared by the gateway and its clients."""
