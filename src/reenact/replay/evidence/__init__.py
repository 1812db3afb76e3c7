"""Signed evidence: a run, or what was found about runs, in one file that anybody can check (docs/evidence.md)."""

from reenact.replay.evidence.bundling import make_bundle, write_bundle
from reenact.replay.evidence.checking import BundleReport, check_bundle
from reenact.replay.evidence.differences import fetch_difference, keep_difference
from reenact.replay.evidence.problems import BundleProblem
from reenact.replay.evidence.public_keys import PublicKey, public_key
from reenact.replay.evidence.signing_keys import SigningKeys
from reenact.replay.evidence.statement import Part, RunClaim, Statement

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
