"""Ownership of lanes: the handoff, from assignment to release."""
