"""Metrics in windows of time, expressions over them, and the alarms that read them."""
