"""Runs schemathesis over the gateway's own OpenAPI document for a bounded time and looks for one thing: an answer of
500 and above. Prints one JSON line; exits 0 only where there was none and enough was asked to mean something."""

import json
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = int(os.environ.get("FUZZ_SECONDS", "60"))
SEED = os.environ.get("FUZZ_SEED", "1")
WORK = Path(os.environ["WORK"])
KEY = "fuzz-operator-key"


def started() -> tuple[subprocess.Popen, str]:
    environment = {**os.environ, "OPERATOR_KEY": KEY, "LOG": str(WORK / "log"), "LEDGER": str(WORK / "fuzz.db")}
    serve = subprocess.Popen(
        ["node", str(HERE / "serve.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    line = serve.stdout.readline()
    if not line:
        raise SystemExit(f"fuzz: the gateway did not start: {(WORK / 'log').read_text()}")
    return serve, json.loads(line)["url"]


def fuzzed(url: str) -> tuple[int, str]:
    """The exit code and what was said; a run that is cut off by its time is as good as one that ended."""
    report = WORK / "events.ndjson"
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        "run",
        f"{url}/openapi.json",
        "--header", f"Authorization: Bearer {KEY}",
        "--checks", "not_a_server_error",
        # Events end only with their client.
        "--exclude-path", "/events",
        "--phases", "examples,coverage,fuzzing",
        "--max-examples", os.environ.get("FUZZ_EXAMPLES", "40"),
        "--request-timeout", "20",
        "--seed", SEED,
        "--report", "ndjson",
        "--report-ndjson-path", str(report),
        "--no-color",
        "--suppress-health-check", "all",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=WORK)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as cut:
        return -1, (cut.stdout or b"").decode() if isinstance(cut.stdout, bytes) else (cut.stdout or "")


def statuses() -> Counter:
    """Of every request that was made, out of the report; a last line that was cut off is left out."""
    found: Counter = Counter()

    def walk(node: object) -> None:
        if isinstance(node, dict):
            status = node.get("status_code")
            if isinstance(status, int):
                found[status] += 1
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    for line in (WORK / "events.ndjson").read_text(errors="replace").splitlines():
        try:
            walk(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def main() -> None:
    serve, url = started()
    try:
        code, said = fuzzed(url)
        with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:
            alive = answer.status == 200
    finally:
        serve.stdin.close()
        serve.wait(timeout=60)
    answers = statuses()
    failures = {status: count for status, count in answers.items() if status >= 500}
    logged = [line for line in (WORK / "log").read_text().splitlines() if "request_failed" in line]
    total = sum(answers.values())
    held = alive and not failures and not logged and code in (0, -1) and total >= 500
    if not held:
        sys.stderr.write(said[-6000:] + "\n" + "\n".join(logged[:10]) + "\n")
    figures = {
        "check": "fuzz",
        "held": held,
        "requests": total,
        "answers": {str(status): count for status, count in sorted(answers.items())},
        "seed": SEED,
        "cut_off": code == -1,
        "gateway_exit": serve.returncode,
    }
    print(json.dumps(figures))
    sys.exit(0 if held else 1)


main()
