"""The clients of two other providers, as they come."""

from kit import claude, gemini, say

client = claude()
asked = {"model": "claude-haiku-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
say(client.messages.create(**asked).content[0].text)
with client.messages.stream(**asked) as stream:
    say(list(stream.text_stream))
other = gemini()  # kept: it closes itself when nobody has it any more
say(other.models.generate_content(model="gemini-2.0-flash", contents="hello").text)
