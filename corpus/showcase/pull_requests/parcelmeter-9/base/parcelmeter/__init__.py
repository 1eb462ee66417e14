"""Parcel prices of several carriers."""
