"""The report of octoml-profile, where its programs import it from."""

from prony.report import (
    GraphResult, PerBackendError, PerBackendResult, Profile, Report, Segment, TotalPerBackendResult)

ProfileReport = Report

__all__ = ["GraphResult", "PerBackendError", "PerBackendResult", "Profile", "ProfileReport",
           "Report", "Segment", "TotalPerBackendResult"]
