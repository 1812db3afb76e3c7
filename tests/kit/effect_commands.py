"""One command of every kind of effect."""

from __future__ import annotations

from onrecord.hosts.envelopes import (
    AwaitEvent,
    Clock,
    DurableStep,
    ExecCode,
    HttpRequest,
    ModelCall,
    Process,
    Random,
    RuntimeEffectCommand,
    Sleep,
    ToolCall,
)

COMMAND_EXAMPLES: list[RuntimeEffectCommand] = [
    ModelCall(provider="acme", model="m-1", request={"messages": [{"role": "user", "content": "2+2?"}]}),
    ToolCall(tool="send_mail", arguments={"to": "a@example.org"}),
    HttpRequest(method="POST", url="https://example.org/", headers=[["accept", "*/*"]], body=b"\x00\xff"),
    ExecCode(code="print(1)"),
    Sleep(seconds=1.5),
    DurableStep(step_id="create", input={"x": 1}),
    AwaitEvent(wait="named", name="approval", timeout_seconds=60.0),
    Process(process_id="child", operation="start", input=[1, 2]),
    Clock(),
    Random(size=32),
]
