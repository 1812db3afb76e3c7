"""The clients of two other providers, as they come."""

import os

import anthropic
from google import genai
from kit import URL, say

claude = anthropic.Anthropic(base_url=URL, api_key=os.environ["OPENAI_API_KEY"])
asked = {"model": "claude-haiku-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
say(claude.messages.create(**asked).content[0].text)
with claude.messages.stream(**asked) as stream:
    say(list(stream.text_stream))
gemini = genai.Client(api_key=os.environ["OPENAI_API_KEY"], http_options={"base_url": URL})
say(gemini.models.generate_content(model="gemini-2.0-flash", contents="hello").text)
