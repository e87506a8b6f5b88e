"""Where records are kept: SQL through SQLAlchemy, or memory for tests."""
