"""Projections of facts: metrics, access log lines and receipts."""
