"""llama_serve.py GGUF PORT [--float32]: the llama.cpp server inside xllamacpp, on 127.0.0.1:PORT until SIGTERM or SIGINT.

Eight slots of 2048 tokens each (LLAMA_SLOTS and LLAMA_SLOT_CONTEXT say otherwise), as model "smollm2", with the metrics, slots and props routes open. With --float32 keys
and values are kept as float32 instead of float16, for log-probs that another implementation computes again.
At most two threads, whatever the machine has: a test engine among other work. LLAMA_THREADS says how many instead: on
cores that others keep busy one can be several times faster than two, which wait for each other.
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

    threads = int(os.environ.get("LLAMA_THREADS") or min(2, len(os.sched_getaffinity(0))))
    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.model_alias = ["smollm2"]
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = int(os.environ.get("LLAMA_SLOTS") or 8)
    params.n_ctx = params.n_parallel * int(os.environ.get("LLAMA_SLOT_CONTEXT") or 2048)
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.endpoint_props = True
    params.use_jinja = True
    params.ui = False
    if sys.argv[3:] == ["--float32"]:
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED

    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    stop.wait()


if __name__ == "__main__":
    main()
