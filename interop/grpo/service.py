"""The engine and the gateway of the loop, as child processes: the llama.cpp server on a float32 GGUF, `coppice serve`
before it. Putting weights stops the server, writes them into the GGUF, starts it on the same port and tells the
gateway their version. Not responsible for what is asked.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engines"))
from hf2gguf import put_weights, write_float32  # noqa: E402
from rollouts import ask  # noqa: E402

START_LIMIT_S = 120
STOP_LIMIT_S = 20


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="the model as a transformers folder")
    parser.add_argument("--gguf", required=True, help="the GGUF that it was made of")
    parser.add_argument("--llama-python", required=True, help="the Python that has xllamacpp")
    parser.add_argument("--dist", required=True, help="a build of Coppice")
    parser.add_argument("--out", required=True, help="a folder for the float32 GGUF, the ledger and logs")
    parser.add_argument("--picture", help="an SVG file for the reward curve")
    parser.add_argument("--threads", type=int, default=1, help="of the trainer and of the engine")
    return parser.parse_args()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Service:
    def __init__(self, given):
        self.given = given
        self.gguf = os.path.join(given.out, "policy.gguf")
        self.ledger = os.path.join(given.out, "ledger.db")
        self.engine_port = free_port()
        self.engine = self.gateway_process = self.gateway = None
        self.logs = []

    def __enter__(self):
        write_float32(self.given.gguf, self.gguf)
        return self

    def __exit__(self, *_):
        for child in (self.gateway_process, self.engine):
            stop(child)
        for log in self.logs:
            log.close()

    def put_weights(self, state, version):
        """`state` is a transformers state dict; the engine generates with it once this returns."""
        stop(self.engine)
        put_weights(self.gguf, {name: tensor.numpy() for name, tensor in state.items()})
        serve = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engines", "llama_serve.py")
        self.engine = self.start(
            "engine.log", [self.given.llama_python, serve, self.gguf, str(self.engine_port), "--float32"]
        )
        self.wait("the engine", self.engine, self.engine_is_ready)
        if self.gateway is None:
            self.start_gateway()
        ask("PUT", f"{self.gateway}/weights", {"version": version})

    def start_gateway(self):
        self.gateway_process = self.start(
            "gateway.log",
            ["node", os.path.join(self.given.dist, "cli/main.js"), "serve", "--way", "token-in", "--port", "0"]
            + ["--engine", f"http://127.0.0.1:{self.engine_port}", "--ledger", self.ledger],
        )
        self.gateway = self.wait("the gateway", self.gateway_process, self.gateway_address)

    def verify(self):
        """Whether `coppice verify` finds the ledger whole; closes the gateway first."""
        stop(self.gateway_process)
        command = ["node", os.path.join(self.given.dist, "cli/main.js"), "verify", "--ledger", self.ledger, "--json"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=START_LIMIT_S, check=False)
        print(told.stdout + told.stderr, file=sys.stderr)
        return told.returncode == 0 and json.loads(told.stdout)["ok"] is True

    def start(self, log_name, command):
        log = open(os.path.join(self.given.out, log_name), "ab")
        self.logs.append(log)
        environment = {**os.environ, "LLAMA_THREADS": str(self.given.threads)}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def wait(self, name, child, ready):
        for _ in range(START_LIMIT_S * 10):
            if child.poll() is not None:
                for log_name in ("engine.log", "gateway.log"):
                    print(tail(os.path.join(self.given.out, log_name)), file=sys.stderr)
                raise RuntimeError(f"{name} ended with {child.returncode} while starting")
            if answer := ready():
                return answer
            time.sleep(0.1)
        raise TimeoutError(f"{name} did not start in {START_LIMIT_S} s")

    def engine_is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.engine_port}/health", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def gateway_address(self):
        with open(os.path.join(self.given.out, "gateway.log"), encoding="utf-8") as log:
            told = re.search(r"^coppice listens on (http\S+)", log.read(), re.MULTILINE)
        return told and told[1]


def tail(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as log:
        return "".join(log.readlines()[-10:])


def stop(child):
    if child is None or child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
