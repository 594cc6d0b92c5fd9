"""Python's official clients through the gateway: what they hand their user is what the engine's own API gives, faults
reach them as faults, and the gateway's record says what happened. Prints one JSON line; exits 0 only where all held."""

import json
import os
import subprocess
import sys
import time
import urllib.request

import anthropic
import openai

CHECKS = 0


def check(what: str, held: bool, seen: object = None) -> None:
    global CHECKS
    CHECKS += 1
    if not held:
        raise SystemExit(f"clients: it does not hold that {what}: {seen!r}")


def raised(kinds, run):
    try:
        run()
    except kinds as error:
        return error
    return None


def calls_of(gateway: str, rollout: str) -> list[dict]:
    with urllib.request.urlopen(f"{gateway}/rollouts/{rollout}", timeout=10) as answer:
        return json.load(answer)["calls"]


def settled(gateway: str, rollout: str, status: str) -> bool:
    for _ in range(100):
        if [call["status"] for call in calls_of(gateway, rollout)] == [status]:
            return True
        time.sleep(0.05)
    return False


ASK = [{"role": "user", "content": "two tools"}]


def read_chat(message) -> dict:
    return {
        "reasoning": getattr(message, "reasoning", None) or "",
        "text": message.content or "",
        "calls": [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []],
    }


def read_response(response) -> dict:
    items = response.output
    return {
        "reasoning": "".join(p.text for i in items if i.type == "reasoning" for p in i.content or []),
        "text": response.output_text,
        "calls": [(i.call_id, i.name, json.loads(i.arguments)) for i in items if i.type == "function_call"],
    }


def read_message(message) -> dict:
    return {
        "reasoning": "".join(b.thinking for b in message.content if b.type == "thinking"),
        "text": "".join(b.text for b in message.content if b.type == "text"),
        "calls": [(b.id, b.name, b.input) for b in message.content if b.type == "tool_use"],
    }


def openai_checks(gateway: str, engine: str) -> dict:
    def client(rollout: str, retries: int = 0) -> openai.OpenAI:
        return openai.OpenAI(api_key="EMPTY", base_url=f"{gateway}/r/{rollout}/v1", max_retries=retries)

    direct = openai.OpenAI(api_key="EMPTY", base_url=f"{engine}/v1", max_retries=0)
    straight = read_chat(
        direct.chat.completions.create(model="m", messages=ASK, max_tokens=200).choices[0].message
    )

    # Text, tool calls and reasoning, whole and streamed.
    chat = client("py-chat").chat.completions.create(model="m", messages=ASK, max_tokens=200)
    check("a chat completion is the engine's own", read_chat(chat.choices[0].message) == straight, chat)
    with client("py-chat").chat.completions.stream(model="m", messages=ASK, max_tokens=200) as stream:
        final = stream.get_final_completion()
    check("a streamed one is too", read_chat(final.choices[0].message)["calls"] == straight["calls"], final)
    responses = client("py-responses").responses
    whole = responses.create(model="m", input="two tools", max_output_tokens=200)
    check("a response is the engine's own answer", read_response(whole) == straight, whole)
    with responses.stream(model="m", input="two tools", max_output_tokens=200) as stream:
        streamed = stream.get_final_response()
    check("a streamed one is too", read_response(streamed) == straight, streamed)
    outputs = [
        {"type": "function_call_output", "call_id": call_id, "output": "ok"}
        for call_id, _name, _input in straight["calls"]
    ]
    after = responses.create(model="m", previous_response_id=whole.id, input=outputs, max_output_tokens=200)
    check("it goes on by previous_response_id", after.output_text == "all done", after)
    text = client("py-text").completions.create(model="m", prompt=[1, 2, 3], max_tokens=4, seed=1)
    engine_text = direct.completions.create(model="m", prompt=[1, 2, 3], max_tokens=4, seed=1)
    check("a text completion is the engine's own", text.choices[0].text == engine_text.choices[0].text, text)

    # Errors, before a stream and inside one; ends that are none.
    def ask(rollout: str, fault: str, retries: int = 0, stream: bool = False):
        answer = client(rollout, retries).responses.create(
            model="m", input=f"@@fault:{fault}@@", max_output_tokens=50, stream=stream
        )
        return [event.type for event in answer] if stream else answer

    check("429 is a RateLimitError", raised(openai.RateLimitError, lambda: ask("py-429", "http429")) is not None)
    check("a retry is made", raised(openai.InternalServerError, lambda: ask("py-5xx", "http503", 1)) is not None)
    statuses = [call["status"] for call in calls_of(gateway, "py-5xx")]
    check("each try is recorded as failed", statuses == ["failed", "failed"], statuses)
    broken = (openai.APIError, OSError, Exception)
    for fault in ("error_event=3", "cut=3", "end_early=3", "broken_frame=3"):
        error = raised(broken, lambda fault=fault: ask(f"py-{fault.split('=')[0]}", fault, stream=True))
        check(f"{fault} reaches the user as an exception", error is not None)

    # An abort.
    stream = client("py-abort").responses.create(
        model="m", input="@@fault:slow=200@@", max_output_tokens=50, stream=True
    )
    for event in stream:
        if event.type == "response.output_text.delta":
            break
    stream.close()
    check("a client that leaves has its call aborted", settled(gateway, "py-abort", "aborted"))
    return straight


def anthropic_checks(gateway: str, straight: dict) -> None:
    def client(rollout: str, retries: int = 0) -> anthropic.Anthropic:
        return anthropic.Anthropic(api_key="EMPTY", base_url=f"{gateway}/r/{rollout}", max_retries=retries)

    messages = client("py-messages").messages
    whole = messages.create(model="m", max_tokens=200, messages=ASK)
    check("a message is the engine's own answer", read_message(whole) == straight, whole)
    with messages.stream(model="m", max_tokens=200, messages=ASK) as stream:
        streamed = stream.get_final_message()
    check("a streamed one is too", read_message(streamed) == straight, streamed)
    check("its usage is too", streamed.usage.input_tokens == whole.usage.input_tokens, streamed.usage)
    results = [{"type": "tool_result", "tool_use_id": i, "content": "ok"} for i, _n, _in in straight["calls"]]
    turn = [{"role": "assistant", "content": whole.content}, {"role": "user", "content": results}]
    after = messages.create(model="m", max_tokens=200, messages=ASK + turn)
    check("it goes on from its own blocks", read_message(after)["text"] == "all done", after)
    count = messages.count_tokens(model="m", messages=ASK)
    check("tokens are counted as they are billed", count.input_tokens == whole.usage.input_tokens, count)

    def ask(rollout: str, fault: str, retries: int = 0, stream: bool = False):
        turn = [{"role": "user", "content": f"@@fault:{fault}@@"}]
        if not stream:
            return client(rollout, retries).messages.create(model="m", max_tokens=50, messages=turn)
        with client(rollout).messages.stream(model="m", max_tokens=50, messages=turn) as events:
            return events.get_final_message()

    error = raised(anthropic.RateLimitError, lambda: ask("py-m-429", "http429"))
    check("429 is a RateLimitError", error is not None and error.body["error"]["type"] == "rate_limit_error", error)
    raised(anthropic.APIStatusError, lambda: ask("py-m-5xx", "http503", 1))
    statuses = [call["status"] for call in calls_of(gateway, "py-m-5xx")]
    check("each try is recorded as failed", statuses == ["failed", "failed"], statuses)
    for fault in ("error_event=3", "cut=3", "end_early=3", "broken_frame=3"):
        failed = raised(Exception, lambda fault=fault: ask(f"py-m-{fault.split('=')[0]}", fault, stream=True))
        check(f"{fault} reaches the user as an exception", failed is not None)
    turn = [{"role": "user", "content": "@@fault:slow=200@@"}]
    with client("py-m-abort").messages.stream(model="m", max_tokens=50, messages=turn) as events:
        for _text in events.text_stream:
            break
    check("a client that leaves has its call aborted", settled(gateway, "py-m-abort", "aborted"))


def main() -> None:
    serve = os.path.join(os.path.dirname(__file__), "serve.mjs")
    with subprocess.Popen(["node", serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        try:
            urls = json.loads(service.stdout.readline())
            straight = openai_checks(urls["gateway"], urls["engine"])
            anthropic_checks(urls["gateway"], straight)
        finally:
            service.stdin.close()
            service.wait(timeout=30)
    figures = {"openai": openai.__version__, "anthropic": anthropic.__version__, "checks": CHECKS}
    sys.stdout.write(json.dumps(figures) + "\n")


main()
