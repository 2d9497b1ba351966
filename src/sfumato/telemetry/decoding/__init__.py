"""From counts of reports to estimates, intervals, tests and associations."""
