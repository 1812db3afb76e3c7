"""The agent of `onrecord demo`, and the same steps as a plain script.

Each effect writes a line to a ledger, a file in place of the bank, the post and the printer. The first printing of a
label leaves a note and waits to be killed.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import onrecord

ANSWER = "Order A-17 was lost on the way. I suggest a new copy, which costs us 42.00 EUR."
POLICY = (
    "You are the support agent of a small bookshop. Be brief and friendly. Look an order up before you speak about it. "
    "A parcel that is not delivered after ten days counts as lost; the customer gets a new copy. Never promise more "
    "than the price of the order. A parcel leaves the house only after a person of the shop has agreed to it. If "
    "anything about an order looks odd, say so and stop. Do not ask for card numbers, addresses or birthdays: what you "
    "never see you cannot give away. When a customer is angry, say that you understand, once, and then help. Answer in "
    "the language of the question. Prices are in cents and include tax; never round them. A book that is out of print "
    "is offered from the second-hand list, with its condition told in plain words: spine, corners, notes in the "
    "margins. Gifts are wrapped for nothing, and the invoice goes to whoever paid, never into the parcel. What you do "
    "not know you do not guess: ask the shop, wait for the answer, and tell the customer how long that may take."
)
WAIT_TO_BE_KILLED_SECONDS = 60.0


class World:
    """The outside: a folder with a ledger, and with notes that processes leave for each other."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def happened(self, what: str, about: str) -> None:
        with (self._folder / "ledger").open("a") as ledger:
            ledger.write(json.dumps({"what": what, "about": about}) + "\n")

    def count(self, what: str) -> int:
        ledger = self._folder / "ledger"
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        return sum(json.loads(line)["what"] == what for line in lines)

    def leave(self, name: str, text: str = "") -> None:
        whole = self._folder / f"{name}.part"
        whole.write_text(text)
        whole.rename(self._folder / name)

    def find(self, name: str) -> str | None:
        note = self._folder / name
        return note.read_text() if note.exists() else None


def _world() -> World:
    return World(os.environ["ONRECORD_DEMO_WORLD"])


@onrecord.step(kind="model_call")
def chat(messages: list[Any]) -> str:
    """Answer in place of a model, always the same."""
    return ANSWER if len(messages) > 2 else "find_order A-17"


@onrecord.step
def find_order(order: str) -> dict[str, Any]:
    return {"order": order, "title": "The Sea", "cents": 4200, "delivered": False, "days": 21}


@onrecord.tool
def pay(supplier: str, cents: int) -> str:
    _world().happened("payment", f"{supplier}: {cents}")
    return "R-0881"


@onrecord.tool
def send_mail(to: str, text: str) -> str:
    _world().happened("mail", f"{to}: {text}")
    return "sent"


@onrecord.tool(idempotent=True)
def print_label(order: str) -> str:
    world = _world()
    if world.find("middle") is None:
        world.leave("middle")
        time.sleep(WAIT_TO_BE_KILLED_SECONDS)
    world.happened("label", order)
    return "label-17"


@onrecord.tool(idempotent=True)
def ask_for_approval(key: str) -> None:
    """Send the wait key by a channel of the shop's own. The holder of the key decides."""
    _world().leave("key", key)


@onrecord.agent(name="bookshop-support")
def support(question: str) -> str:
    conversation: list[Any] = [{"role": "system", "content": POLICY}, {"role": "user", "content": question}]
    onrecord.set_state({"order": None, "step": "asked"}, step_id="start")
    chat(list(conversation))
    order = find_order("A-17")
    conversation += [{"role": "assistant", "tool": "find_order"}, {"role": "tool", "content": order}]
    suggestion = chat(list(conversation))
    receipt = pay("wholesaler", order["cents"])
    send_mail("customer", suggestion)
    onrecord.set_state({"order": "A-17", "step": "paid"}, step_id="paid")
    print_label("A-17")
    ask_for_approval(onrecord.wait_key("parcel leaves"))
    decision = onrecord.wait_for("parcel leaves", timeout="1h")
    return f"Paid with {receipt}, mailed once, approved by {decision['by']}."


def without_onrecord() -> None:
    """Run the same steps without a record."""
    order = find_order.function("A-17")
    pay.function("wholesaler", order["cents"])
    send_mail.function("customer", ANSWER)
    print_label.function("A-17")


if __name__ == "__main__":
    without_onrecord()
