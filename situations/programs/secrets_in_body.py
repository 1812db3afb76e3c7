"""A prompt with secrets in it, as users paste them."""

from canaries import body_text

from kit import ask, client, say

model = client()
say(ask(model, body_text()))
say(ask(model, "thank you"))
