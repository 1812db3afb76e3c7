"""Evidence: runs and findings about them, signed, in one file that can be checked offline (docs/guides/evidence.md)."""

from onrecord.analysis.compare.kept_differences import fetch_difference, keep_difference
from onrecord.proof.evidence.bundle_check import BundleReport, check_bundle
from onrecord.proof.evidence.bundle_writer import make_bundle, write_bundle
from onrecord.proof.evidence.problems import BundleProblem
from onrecord.proof.evidence.public_keys import PublicKey, public_key
from onrecord.proof.evidence.signing_keys import SigningKeys
from onrecord.proof.evidence.statement import Part, RunClaim, Statement

__all__ = [
    "BundleProblem",
    "BundleReport",
    "Part",
    "PublicKey",
    "RunClaim",
    "SigningKeys",
    "Statement",
    "check_bundle",
    "fetch_difference",
    "keep_difference",
    "make_bundle",
    "public_key",
    "write_bundle",
]
