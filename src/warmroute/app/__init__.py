"""Joins the parts: settings, processes, supervision."""
