"""Signed evidence: a run, or what was found about runs, in one file that anybody can check (docs/evidence.md)."""

from reenact.replays.evidence.bundling import make_bundle, write_bundle
from reenact.replays.evidence.checking import BundleReport, check_bundle
from reenact.replays.evidence.differences import fetch_difference, keep_difference
from reenact.replays.evidence.problems import BundleProblem
from reenact.replays.evidence.public_keys import PublicKey, public_key
from reenact.replays.evidence.signing_keys import SigningKeys
from reenact.replays.evidence.statement import Part, RunClaim, Statement

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
