"""A tool fails with an exception of the program's own, which has attributes and a cause."""

from kit import note, say, tool


class OutOfStock(Exception):
    def __init__(self, item: str, left: int) -> None:
        super().__init__(f"only {left} of {item}")
        self.item = item
        self.left = left


@tool
def order(item: str) -> str:
    note("ledger", item)
    try:
        return {"chair": "ordered"}[item]
    except KeyError as error:
        raise OutOfStock(item, 3) from error


try:
    say(order("lamp"))
except OutOfStock as error:
    say(type(error) is OutOfStock, error, getattr(error, "left", "no attribute"), repr(error.__cause__))
except Exception as error:
    say("another class:", type(error).__mro__[:2])
