"""Calibration: a judge's answers beside those of people or of other judges (seed A 5.3, 5.4)."""
