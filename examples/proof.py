# Prove what an agent did: verify its record, and give away one file, or one receipt for each effect.
#
#   onrecord run proof.py:lend --run-id loan --input '[700]'
#   onrecord verify loan
#   onrecord export loan -o loan.jsonl
#   onrecord verify loan.jsonl
#   onrecord receipt mint loan -o receipts.jsonl
#   onrecord receipt check receipts.jsonl

import onrecord


@onrecord.step
def score(cents):
    return 712 if cents < 1_000_00 else 540


@onrecord.tool
def transfer(cents):
    return f"T-{cents}"


@onrecord.agent
def lend(euros):
    if score(euros * 100) < 600:
        return "declined"
    return transfer(euros * 100)
