"""Tables and pictures from data."""
