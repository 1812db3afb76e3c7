"""Redaction removes secrets before anything is hashed or written. Pure: the caller supplies the known secrets."""

from onrecord.core.redaction.finder import Finder
from onrecord.core.redaction.names import secrets_of_environment
from onrecord.core.redaction.patterns import Rule
from onrecord.core.redaction.redactor import Clean, Redacted, Redactor
from onrecord.core.redaction.restore import restore_secrets

__all__ = ["Clean", "Finder", "Redacted", "Redactor", "Rule", "restore_secrets", "secrets_of_environment"]
