"""For tools that look for this file: setuptools finds everything in pyproject.toml."""

from setuptools import setup

setup()
