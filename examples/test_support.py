# A test that calls a model once and replays the recording from then on, with the OpenAI SDK.
# It needs `pip install pytest openai` and, to record, OPENAI_API_KEY.
#
#   pytest --onrecord=once test_support.py   (calls the model, once)
#   pytest test_support.py                   (replays: no network, no cost)

import openai
import pytest


def answer(question):
    client = openai.OpenAI()
    messages = [{"role": "system", "content": "Answer in one sentence."}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="gpt-5-mini", messages=messages).choices[0].message.content


@pytest.mark.onrecord
def test_the_answer_names_a_day(onrecord):
    assert "Thursday" in answer("Where is my order A-17?")
    assert onrecord.tokens < 2_000
