"""Prediction against measurement: published rows, fitted profiles and their errors."""
