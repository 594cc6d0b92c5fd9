"""llama_serve.py GGUF PORT: the llama.cpp server inside xllamacpp, on 127.0.0.1:PORT until SIGTERM or SIGINT.

Eight slots of 2048 tokens each, as model "smollm2", with the metrics, slots and props routes open.
At most two threads, whatever the machine has: a test engine among other work.
"""

import os
import signal
import sys
import threading

import xllamacpp

SLOTS = 8
TOKENS_PER_SLOT = 2048


def main() -> None:
    gguf, port = sys.argv[1], int(sys.argv[2])
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    threads = min(2, len(os.sched_getaffinity(0)))
    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.model_alias = ["smollm2"]
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * TOKENS_PER_SLOT
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.endpoint_props = True
    params.use_jinja = True
    params.ui = False

    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    stop.wait()


if __name__ == "__main__":
    main()
