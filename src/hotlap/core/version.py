"""The version of hotlap."""

__version__ = "0.1.0"
