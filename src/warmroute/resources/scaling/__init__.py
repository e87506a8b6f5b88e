"""Application Auto Scaling: what is scaled, by which policies and schedules, and what they decide."""
