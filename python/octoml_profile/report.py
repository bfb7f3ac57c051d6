"""The report of octoml-profile, where its programs import it from."""

from prony.report import (
    PerBackendError, PerBackendResult, Profile, Report, Segment, TotalPerBackendResult)

ProfileReport = Report

__all__ = ["PerBackendError", "PerBackendResult", "Profile", "ProfileReport", "Report", "Segment",
           "TotalPerBackendResult"]
