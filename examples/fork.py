# Fork a run: one recorded answer is replaced, everything before it is shared, everything after it runs again.
#
#   onrecord run fork.py:support --run-id base --input '["Where is my order!"]'
#   onrecord fork base --event 2 --answer '"calm"' --fork-id calm --live-tool reply
#   onrecord diff base calm                  (exits with 1: they diverge)

import onrecord


@onrecord.step  # in place of a model call
def classify(text):
    return "angry" if "!" in text else "calm"


@onrecord.tool  # in a fork it runs only if --live-tool names it
def reply(text):
    print("reply:", text, flush=True)
    return "sent"


@onrecord.agent
def support(complaint):
    mood = classify(complaint)
    return reply("We are very sorry." if mood == "angry" else "Thank you for writing.")
