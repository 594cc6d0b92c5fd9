"""The agent and its task, over HTTP alone: two short answers a rollout, its reward the share that begins with WORD.

At temperature 1 the untrained model begins about one answer in five to these questions with it. A group is the same
question asked GROUP_SIZE times; its rows come from the gateway once every outcome is told.
"""

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

QUESTIONS = ["Tell me about rain.", "Describe a cat."]
FOLLOW_UP = "Tell me more."
WORD = "The"
SYSTEM = "Answer shortly."
MAX_TOKENS = 8
# As many as the engine has slots.
CONCURRENCY = 8
TIMEOUT_S = 300


def ask(method, url, body=None):
    """The answer's text; a status other than 2xx raises with what the gateway said."""
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=sent, method=method, headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{method} {url}: {error.code} {error.read().decode()[:300]}") from error


def answer_to(gateway, rollout, messages, seed):
    body = {"model": "smollm2", "messages": messages, "temperature": 1.0, "max_tokens": MAX_TOKENS, "seed": seed}
    return json.loads(ask("POST", f"{gateway}/r/{rollout}/v1/chat/completions", body))


def play(gateway, rollout, question, seed, member):
    """One rollout: opened into its group, a call for each turn, its outcome."""
    ask("PUT", f"{gateway}/rollouts/{rollout}", member)
    messages, accepted, hits = [{"role": "system", "content": SYSTEM}], [], 0
    for turn, said in enumerate([question, FOLLOW_UP]):
        messages.append({"role": "user", "content": said})
        answer = answer_to(gateway, rollout, messages, seed + turn)
        messages.append(answer["choices"][0]["message"])
        accepted.append(answer["id"])
        hits += (messages[-1]["content"] or "").split()[:1] == [WORD]
    ask("POST", f"{gateway}/rollouts/{rollout}/outcome", {"reward": hits / len(accepted), "accepted": accepted})


def play_group(gateway, step, question, size, seed):
    """One row a rollout, in their order. Anything else raises: two turns that token-in joins are one tree."""
    group = f"step{step}-q{question}"

    def member(index):
        opened = {"group_id": group, "group_size": size, "generation_index": index}
        call_seed = seed * 1_000_000 + step * 1000 + question * 100 + 10 * index
        play(gateway, f"{group}-{index}", QUESTIONS[question], call_seed, opened)

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        list(pool.map(member, range(size)))
    lines = [json.loads(line) for line in ask("GET", f"{gateway}/groups/{group}/rows").splitlines()]
    if len(lines) != size or any(line["type"] != "row" for line in lines):
        raise ValueError(f"group {group}: {size} rows were wanted, got {json.dumps(lines)[:500]}")
    return lines
