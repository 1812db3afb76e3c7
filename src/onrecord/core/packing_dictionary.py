"""Dictionary 1 of `core/packing.py`: text that most stored bytes share (docs/format.md, section 10).

The dictionary is part of the format: stored bytes can be read only with the exact dictionary that packed them. Never
change a byte of it; a better one gets its own marker. The most frequent text is at the end, where a reference is
shortest.
"""

from __future__ import annotations

_OTHERS = (
    r'{"error":{"type":"$error":{"type":"builtins:ValueError","message":"","args":["bases":["builtins:Exception",'
    r'"builtins:BaseException"]{"operation":"run_imported","detail":{"run":"","header_hash":"sha256:"}}'
    r'{"turns":[["0","timer",["0.1","job","thread","born":{"draws":[["0","clock","time.time","monotonic","seed","uuid4",'
    r'"random",{"$int":"{"$bytes":"{"$tuple":["{"$datetime":"2026-01-01T00:00:00+00:00"{"$json":{"style":"compact",'
    r'"value":{"$object":{"type":"form":"dataclass","fields":{"$float":"'
    r'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"arguments":{"result":{"content":[{"type":"text",'
    r'"text":"isError":false,"structuredContent":null'
    r'{"action_id":"","index":0,"chunk":"data: {"id":"chatcmpl-","object":"chat.completion.chunk","created":17,'
    r'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'
    r"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
    r"\"text_delta\",\"text\":\"\"}}\n\ndata: [DONE]\n\n"
    r'{"generateContent{"contents":[{"parts":[{"text":""}],"role":"user"}],"generationConfig":{'
    r'"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],'
    r'"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":1},"modelVersion":"gemini-'
)
_HEADERS = (
    r'["Access-Control-Allow-Origin","*"],["Cache-Control","no-cache, no-store, must-revalidate"],["Vary",'
    r'"Accept-Encoding, Origin"],["Content-Encoding","gzip"],["X-Content-Type-Options","nosniff"],["alt-svc",'
    r'"h3=\":443\"; ma=86400"],["Strict-Transport-Security","max-age=31536000; includeSubDomains; preload"],'
    r'["openai-organization",""],["openai-processing-ms","100"],["openai-version","2020-10-01"],'
    r'["anthropic-ratelimit-requests-limit",""],["x-ratelimit-limit-requests","10000"],["x-ratelimit-limit-tokens",'
    r'"200000"],["x-ratelimit-remaining-requests","9999"],["x-ratelimit-remaining-tokens",""],'
    r'["x-ratelimit-reset-requests","6ms"],["x-ratelimit-reset-tokens","0s"],["x-request-id","req_"],["CF-Cache-Status",'
    r'"DYNAMIC"],["CF-RAY",""],["Set-Cookie","<secret:credential:1.1>"],["Server","cloudflare"],["Date",'
    r'"Mon, 01 Jan 2026 00:00:00 GMT"],["Transfer-Encoding","chunked"],["Connection","keep-alive"],'
    r'["content-type","application/json; charset=utf-8"],["content-length","'
)
_TOOLS = (
    r'"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"title":"","type":"object",'
    r'"additionalProperties":false,"required":["strict":true,"max_tokens":1024,"temperature":0.7,"stream":true,'
    r'"instructions":"You are a helpful assistant.","tool_choice":"auto","tools":[{"type":"function","function":{'
    r'"name":"","description":"","parameters":{"type":"object","properties":{"":{"type":"string"}},"required":[""]}}}],'
    r'"input":[{"type":"function_call_output","call_id":"call_","output":"{"role":"tool","tool_call_id":"call_",'
    r'"content":"[{"type":"tool_use","id":"toolu_01","name":"","input":{"{"type":"tool_result","tool_use_id":"toolu_01",'
    r'"content":[{"type":"text","text":"","annotations":[],"refusal":null,"tool_calls":[{"id":"call_","type":'
    r'"function","function":{"name":"","arguments":"{\"\":\"\"}"}}]'
    r'{"id":"msg_01","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":""'
    r'}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":0,'
    r'"cache_read_input_tokens":0,"output_tokens":1}}{"id":"resp_","object":"response","created_at":17,"status":'
    r'"completed","output":[{"type":"output_text","text":"https://api.anthropic.com/v1/messages'
    r"https://api.openai.com/v1/responses"
)
_CALLS = (
    r'{"action_id":"0/GET 127.0.0.1:","payload":{"method":"GET","url":"http://","headers":{"accept":"*/*"}},"name":'
    r'"GET localhost:","effect":"read"}'
    r'{"action_id":"0/POST api.openai.com/v1/chat/completions/1","payload":{"method":"POST","url":'
    r'"https://api.openai.com/v1/chat/completions","headers":{"accept":"application/json","content-type":'
    r'"application/json"},"body":{"json":{"model":"gpt-4o-mini","messages":{"$list":["sha256:",'
    r'"payload":{"$node":"sha256:"},"name":"POST api.openai.com/v1/chat/completions","effect":"model_call","meta":{'
    r'"retry":0}}","output":{"$node":"sha256:"}}","output":{"status":200,"reason":"OK","version":"HTTP/1.1","headers":[['
    r'"Content-Type","application/json"],["Content-Length",""]],"body":{"json":{"id":"chatcmpl-","object":'
    r'"chat.completion","created":17,"model":"gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant",'
    r'"content":""},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,'
    r'"total_tokens":12}},"style":"compact"}}},"style":"python"}}}'
    r'{"$string":["sha256:{"$list":["sha256:","sha256:[{"role":"system","content":""},{"role":"user","content":""},'
    r'{"role":"assistant","content":""},{"role":"user","content":{"$node":"sha256:"}},{"role":"assistant","content":'
    r'{"$node":"sha256:'
)

DICTIONARY = (_OTHERS + _HEADERS + _TOOLS + _CALLS).encode()
