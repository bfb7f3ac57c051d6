"""octoml-profile's lower layer, where its programs import it from: sessions as they are used without
its front end, files of models, and what runs give."""

from prony._backend import BackendOptions, BackendSpec
from prony._runner import (
    BytesLike, FileDescription, LazyInMemoryFile, ModelRunner, OnDiskFile, ResultValue, RunResult)
from prony._session import InferenceSession

__all__ = ["BackendOptions", "BackendSpec", "BytesLike", "FileDescription", "InferenceSession",
           "LazyInMemoryFile", "ModelRunner", "OnDiskFile", "ResultValue", "RunResult"]
