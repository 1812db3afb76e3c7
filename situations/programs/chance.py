"""Clock, chance and the order of a set."""

import datetime
import os
import random
import secrets
import time
import uuid

from kit import ask, client, say

say(ask(client(), "are you there?"))
say("time", time.time(), time.time_ns())
say("datetime", datetime.datetime.now(), datetime.datetime.now(datetime.timezone.utc))  # noqa: UP017
say("random", random.random(), random.choice("abcdefgh"), random.Random().random())
say("uuid", uuid.uuid4())
say("urandom", os.urandom(4).hex(), secrets.token_hex(4))
say("set", list({"lamp", "chair", "table", "shelf", "stool", "bench"}))
