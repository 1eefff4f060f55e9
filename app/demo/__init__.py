"""The demo on real data: New York's flights of 2013 joined with the weather of their hours."""
