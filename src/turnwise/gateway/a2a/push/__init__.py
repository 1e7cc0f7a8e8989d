"""A2A push notifications: configuration, URL checks, and delivery."""
