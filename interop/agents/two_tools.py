"""One task of two tool calls with an SDK's own agent loop, or a loop by hand: two_tools.py KIND BASE."""

import sys

kind, base = sys.argv[1:]
TASK = "Count the words in notes.txt."


def count(path: str) -> str:
    """Counts the words of a file."""
    with open(path) as file:
        return str(len(file.read().split()))


def openai() -> str:
    import json
    from openai import OpenAI

    client = OpenAI(base_url=f"{base}/v1", api_key="dummy")
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "count", "parameters": schema}}]
    messages = [{"role": "user", "content": TASK}]
    while True:
        raw = client.chat.completions.with_raw_response.create(model="policy", messages=messages, tools=tools)
        assert raw.headers["x-coppice-call-id"]
        message = raw.parse().choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            result = count(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def anthropic() -> str:
    from anthropic import Anthropic

    client = Anthropic(base_url=base, api_key="dummy")
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = [{"name": "count", "description": "Counts.", "input_schema": schema}]
    messages = [{"role": "user", "content": TASK}]
    while True:
        with client.messages.stream(model="policy", max_tokens=500, messages=messages, tools=tools) as stream:
            message = stream.get_final_message()
        if message.stop_reason != "tool_use":
            return message.content[-1].text
        messages.append({"role": "assistant", "content": message.content})
        uses = [block for block in message.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": count(**use.input)} for use in uses]
        messages.append({"role": "user", "content": results})


def openai_agents() -> str:
    from agents import Agent, Runner, function_tool, set_default_openai_client, set_tracing_disabled
    from openai import AsyncOpenAI

    set_default_openai_client(AsyncOpenAI(base_url=f"{base}/v1", api_key="dummy"))
    set_tracing_disabled(True)
    agent = Agent(name="counter", model="policy", tools=[function_tool(count)])
    return Runner.run_sync(agent, TASK).final_output


def langgraph(responses: bool = False) -> str:
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    model = ChatOpenAI(model="policy", api_key="dummy", base_url=f"{base}/v1", use_responses_api=responses)
    state = create_react_agent(model, [count]).invoke({"messages": [("user", TASK)]})
    return str(state["messages"][-1].content)


kinds = {
    "openai": openai,
    "anthropic": anthropic,
    "openai-agents": openai_agents,
    "langgraph": langgraph,
    "langgraph-responses": lambda: langgraph(True),
}
print(kinds[kind]())
