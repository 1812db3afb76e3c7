# An agent that waits for a person. Its process ends meanwhile; the answer may arrive days later.
#
#   onrecord run approval.py:refund --run-id ask --input '["A-17"]' --no-wait      (exits with 6: it waits)
#   onrecord waits ask
#   onrecord resolve --run ask --value '{"approved": true, "by": "dana"}'
#   onrecord resume ask

import onrecord


@onrecord.tool
def pay(order, cents):
    print(f"paid {cents} cents for {order}", flush=True)
    return "paid"


@onrecord.agent
def refund(order):
    decision = onrecord.wait_for("approval", timeout="2d")
    if not decision["approved"]:
        return f"{decision['by']} refused"
    return f"{pay(order, 4200)}, approved by {decision['by']}"
