"""Which errors do launches raise? What the frontend's own launcher raises in each place, as launch errors of the simulator.

A program that catches the frontend's TypeError catches these; who simulates catches `LaunchError`.
"""
from __future__ import annotations

from tileiras.sim.errors import LaunchError


class ArgumentTypeError(LaunchError, TypeError):
    """Arguments of the wrong number, type, rank or tuple length; a grid that is no tuple of whole numbers."""


class ArgumentValueError(LaunchError, ValueError):
    """Arguments of the right type with values that can't be: a static axis out of range, a grid too large."""


class ArgumentOverflowError(LaunchError, OverflowError):
    """A number, length or stride that its integer type doesn't hold."""
