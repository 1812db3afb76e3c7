"""Secrets are taken out before anything is hashed or written. Pure: what is secret here is told from outside."""

from reenact.core.redaction.finding import Finder
from reenact.core.redaction.names import secrets_of_environment
from reenact.core.redaction.patterns import Rule
from reenact.core.redaction.redactor import Clean, Redacted, Redactor
from reenact.core.redaction.restoring import restored

__all__ = ["Clean", "Finder", "Redacted", "Redactor", "Rule", "restored", "secrets_of_environment"]
