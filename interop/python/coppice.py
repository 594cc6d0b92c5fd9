"""A client of Coppice in one file, with the standard library alone: copy it beside your agent.

    rollout = Rollout("http://127.0.0.1:8790", "task7-0", group_id="task7", group_size=4, generation_index=0)
    client = openai.OpenAI(base_url=rollout.base_url, api_key=rollout.key)
    answer = client.chat.completions.create(model="policy", messages=messages)
    rollout.accept(answer.id)          # or rollout.reject(answer.id), and ask again
    rollout.finish(reward=1.0)

The protocol is four HTTP calls: open, call, outcome, rows (docs/protocol.md).
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterator, Sequence

Reference = str | dict[str, Any]


class CoppiceError(Exception):
    """The gateway refused a request; `status` is HTTP's, `detail` what it told for programs."""

    def __init__(self, message: str, status: int | None = None, detail: Any = None):
        super().__init__(message)
        self.status = status
        self.detail = detail


class Rollout:
    """One agent working once on one task. Opening it again with the same fields is no error."""

    def __init__(
        self,
        gateway: str | None = None,
        rollout_id: str | None = None,
        *,
        group_id: str | None = None,
        group_size: int | None = None,
        generation_index: int | None = None,
        sampling: dict[str, Any] | None = None,
        deadline_s: float | None = None,
        key: str | None = None,
        timeout: float = 30.0,
    ):
        """Gateway, rollout and key are taken from COPPICE_GATEWAY, COPPICE_ROLLOUT and COPPICE_KEY where not given."""
        self.gateway = (gateway or os.environ["COPPICE_GATEWAY"]).rstrip("/")
        self.rollout_id = rollout_id or os.environ["COPPICE_ROLLOUT"]
        self.key = key or os.environ.get("COPPICE_KEY", "none")
        self.timeout = timeout
        self.accepted: list[Reference] = []
        self.rejected: list[str] = []
        self.finished = False
        opened = self._request(
            "PUT",
            f"/rollouts/{self._id()}",
            {
                "group_id": group_id,
                "group_size": group_size,
                "generation_index": generation_index,
                "sampling": sampling,
                "deadline_s": deadline_s,
            },
        )
        # A key that may call for this rollout alone, where the gateway has keys.
        self.key = opened.get("client_key") or self.key

    @property
    def base_url(self) -> str:
        """For OpenAI clients; Anthropic's takes it without the /v1."""
        return f"{self.gateway}/r/{self._id()}/v1"

    def agent_base_url(self, label: str) -> str:
        """For the calls of a sub-agent of that label."""
        return f"{self.gateway}/r/{self._id()}/a/{urllib.parse.quote(label, safe='')}/v1"

    def accept(self, answer: Reference) -> None:
        """An answer by its response id, by its call id (the header x-coppice-call-id), or whole."""
        if answer in self.rejected:
            raise CoppiceError(f"answer {answer} was rejected before; it cannot be accepted now")
        if answer in self.accepted:
            raise CoppiceError(f"answer {answer} was accepted before")
        self.accepted.append(answer)

    def reject(self, answer: str) -> None:
        """Never trained. Answers that are neither accepted nor rejected are not either; this one may not be later."""
        if answer in self.accepted:
            raise CoppiceError(f"answer {answer} was accepted before; it cannot be rejected now")
        self.rejected.append(answer)

    def finish(self, reward: float | None = None, *, final: Reference | None = None, infer: bool = False) -> dict[str, Any]:
        """Posts the outcome, which seals the rollout: what was accepted, or `final`, or `infer`."""
        outcome: dict[str, Any] = {"reward": reward}
        if final is not None:
            outcome["final"] = final
        elif infer:
            outcome["infer"] = True
        else:
            outcome["accepted"] = self.accepted
        return self._post_outcome(outcome)

    def fail(self, reason: str) -> dict[str, Any]:
        """The agent failed: no rows, and no place in the group's mean."""
        return self._post_outcome({"failed": reason})

    def add_reward(self, reward: float) -> dict[str, Any]:
        """To an outcome that was posted without one; once."""
        return self._request("POST", f"/rollouts/{self._id()}/outcome", {"reward": reward})

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rollout's rows, or its one failure."""
        text = self._send("GET", f"/rollouts/{self._id()}/rows?format=jsonl", None)
        return (json.loads(line) for line in text.splitlines() if line)

    def _post_outcome(self, outcome: dict[str, Any]) -> dict[str, Any]:
        if self.finished:
            raise CoppiceError(f"the outcome of {self.rollout_id} was posted before")
        sealed = self._request("POST", f"/rollouts/{self._id()}/outcome", outcome)
        self.finished = True
        return sealed

    def _id(self) -> str:
        return urllib.parse.quote(self.rollout_id, safe="")

    def _request(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        said = {name: value for name, value in body.items() if value is not None}
        return json.loads(self._send(method, path, said))

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> str:
        request = urllib.request.Request(
            self.gateway + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json", "authorization": f"Bearer {self.key}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                return response.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            message, detail = _refusal(text)
            raise CoppiceError(f"{method} {path} was refused ({error.code}): {message}", error.code, detail) from error
        except urllib.error.URLError as error:
            raise CoppiceError(f"{method} {path} had no answer: {error.reason}") from error


def accepted_of(messages: Sequence[dict[str, Any]]) -> list[Reference]:
    """The assistant messages of a chat history, to be matched by their content."""
    return [
        {"role": "assistant", "content": message.get("content"), **_calls(message)}
        for message in messages
        if message.get("role") == "assistant"
    ]


def _calls(message: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {}


def _refusal(text: str) -> tuple[str, Any]:
    try:
        error = json.loads(text)["error"]
        return error["message"], error.get("detail")
    except (ValueError, KeyError, TypeError):
        return text[:500], None
