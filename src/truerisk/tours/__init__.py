"""The tour: what this library is for, told in two minutes on digits or on a user's own network."""

from truerisk.tours.entry import tour
from truerisk.tours.result import Tour

__all__ = ["Tour", "tour"]
