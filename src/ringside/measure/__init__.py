"""Measurements: sweeps into tidy tables, the reports from them, and what a fit tells of them."""
