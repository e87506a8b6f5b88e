"""Scales by alarms and schedules."""
