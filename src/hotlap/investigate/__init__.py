"""Investigations: plan, conduct, apply, safety."""
