"""What all traffic must meet, whatever a test is about."""

from .rules import Judge
from .schema import Schemas

__all__ = ["Judge", "Schemas"]
