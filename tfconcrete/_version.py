"""The version, in a file that imports nothing: the build reads it from here."""

__version__ = "0.2.0"
