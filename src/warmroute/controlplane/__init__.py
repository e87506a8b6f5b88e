"""Turns what callers asked for into instances that run, and tells the routers."""
