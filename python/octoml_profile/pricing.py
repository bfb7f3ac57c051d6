"""Prices of octoml-profile, in dollars per hour. Reports use those of docs/hardware.md, or of a file."""

AWS_ON_DEMAND_PER_HOUR = {"r6i.large": 0.126, "r7g.large": 0.1071, "g4dn.xlarge": 0.526,
                          "g5.xlarge": 1.006}
