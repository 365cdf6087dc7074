"""The demonstration: a real engine, before and after three patches."""
