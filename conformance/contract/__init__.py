"""The contract of all messages, in every test."""

from .rules import Judge
from .schema import Schemas

__all__ = ["Judge", "Schemas"]
