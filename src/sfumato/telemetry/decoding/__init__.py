"""Decoding of reports: estimates of counts, intervals, tests and associations."""
