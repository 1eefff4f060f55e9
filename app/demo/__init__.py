"""The demo on real data: New York's flights of 2013 joined with the weather of their hours."""

from __future__ import annotations

from app.demo.run import run_demo

__all__ = ["run_demo"]
