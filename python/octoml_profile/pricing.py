"""Prices of octoml-profile, in dollars per hour; `prony hardware` lists those that reports use."""

AWS_ON_DEMAND_PER_HOUR = {"r6i.large": 0.126, "r7g.large": 0.1071, "g4dn.xlarge": 0.526,
                          "g5.xlarge": 1.006}
