# A plain program that calls a model over HTTP. Onrecord records it without a change.
#
#   onrecord run agent.py "Where is my order A-17?"
#   onrecord replay @last
#   onrecord show @last
#
# To record it, set OPENAI_API_KEY, or OPENAI_BASE_URL for another server with the same API. A replay sends nothing and
# needs no key; OPENAI_BASE_URL must be the same as in the recording, because it is part of each request.

import datetime
import json
import os
import sys
import urllib.request

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("OPENAI_API_KEY", "")}


def ask(messages):
    body = json.dumps({"model": "gpt-5-mini", "messages": messages}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(URL, body, HEADERS)) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]
    except OSError as error:
        sys.exit(f"No answer from {URL}: {error}. Set OPENAI_API_KEY, or OPENAI_BASE_URL for another server.")


messages = [
    {"role": "system", "content": f"You answer for a bookshop. Today is {datetime.date.today()}."},
    {"role": "user", "content": sys.argv[1]},
]
draft = ask(messages)
messages += [{"role": "assistant", "content": draft}, {"role": "user", "content": "Shorter, please."}]
print(ask(messages))
