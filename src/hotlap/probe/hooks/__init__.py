"""Hooks: what the script calls, seen."""
