"""The console: a static page that calls the gateway's REST API. It has no right that its caller does not have."""
