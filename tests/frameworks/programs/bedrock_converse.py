"""Amazon Bedrock through boto3: parallel tools on threads, a retry."""

from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config
from task import QUESTION, URL, prompt

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tools = {"tools": [{"toolSpec": {"name": "weather", "description": "Weather", "inputSchema": {"json": SCHEMA}}}]}
keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "us-east-1"}
config = Config(retries={"max_attempts": 3, "mode": "standard"})
client = boto3.client("bedrock-runtime", endpoint_url=URL, config=config, **keys)


def ask(messages, **more):
    return client.converse(modelId="model", messages=messages, **more)["output"]["message"]


def weather(part):
    call = part["toolUse"]
    described = ask([{"role": "user", "content": [{"text": prompt(call["input"]["city"])}]}])
    return {"toolResult": {"toolUseId": call["toolUseId"], "content": described["content"]}}


messages = [{"role": "user", "content": [{"text": QUESTION}]}]
messages.append(ask(messages, toolConfig=tools))
with ThreadPoolExecutor() as pool:
    messages.append({"role": "user", "content": list(pool.map(weather, messages[-1]["content"]))})
print(messages[-1])
print(ask(messages, toolConfig=tools))
