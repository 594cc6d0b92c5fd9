"""What datasets, pyarrow, polars and duckdb make of Coppice's JSON Lines, Arrow and Parquet: every field of the worked
rows, of every vector, the bits of random token ids and log-probs, and the traps of type inference. No torch."""
import glob
import json
import os
import sys
import time

STARTED = time.time()
import datasets
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.json as pj
import pyarrow.parquet as pq

datasets.disable_progress_bars()
OUT, INTEROP = os.environ["COPPICE_EXPORTS"], os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
failed, done = [], 0


def claim(name, holds):
    global done
    done += 1
    if not holds:
        failed.append(name)
    print(("ok    " if holds else "FAILS ") + name, file=sys.stderr)


def arrow_file(path):
    with pa.memory_map(path) as source:
        return ipc.open_file(source).read_all()


def by_datasets(kind, path):
    return datasets.load_dataset(kind, data_files=path, split="train").to_list()


def readers(name):
    """Each reader of each format: a list of dictionaries."""
    J, A, P = (f"{OUT}/{name}.{suffix}" for suffix in ("jsonl", "arrow", "parquet"))
    return {
        "pyarrow jsonl": lambda: pj.read_json(J, parse_options=pj.ParseOptions(newlines_in_values=False)).to_pylist(),
        "pyarrow arrow": lambda: arrow_file(A).to_pylist(),
        "pyarrow parquet": lambda: pq.read_table(P).to_pylist(),
        "datasets jsonl": lambda: by_datasets("json", J),
        "datasets arrow": lambda: datasets.Dataset(arrow_file(A)).to_list(),
        "datasets parquet": lambda: by_datasets("parquet", P),
        "polars jsonl": lambda: pl.read_ndjson(J).to_dicts(),
        "polars arrow": lambda: pl.read_ipc(A).to_dicts(),
        "polars parquet": lambda: pl.read_parquet(P).to_dicts(),
        "duckdb jsonl": lambda: duckdb.sql(f"select * from read_json('{J}')").to_arrow_table().to_pylist(),
        "duckdb parquet": lambda: duckdb.sql(f"select * from '{P}'").to_arrow_table().to_pylist(),
    }


def close(got, want):
    """Equal field by field; floats to a float32's precision. `got` may have more fields."""
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and close(got[k], v) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(got, (list, tuple)) and len(got) == len(want) and all(map(close, got, want))
    if isinstance(want, float):
        return isinstance(got, float) and abs(got - want) <= 1e-6 * max(1.0, abs(want))
    return type(got) is type(want) and got == want


# ---- the worked example: every field that the exporter writes, against Python's own reading of the JSON Lines
known = [json.loads(line) for line in open(f"{OUT}/near.jsonl")]
fixture = [json.loads(line) for line in open(f"{INTEROP}/fixtures/rows.jsonl")]
fields = ("token_ids", "loss_mask", "logprobs", "prompt_length", "reward", "advantage", "group_id", "rollout_id", "segment_index", "segment_count")
claim("the worked rows are those of the fixture", len(known) == 5 and all(close(k, {f: r[f] for f in fields}) for k, r in zip(known, fixture)))
rows_read = 0
for name, read in readers("near").items():
    got = read()
    rows_read += len(got)
    claim(f"{name}: 5 worked rows, all {len(known[0])} fields", len(got) == 5 and close(got, known))

# ---- every vector, against what the vector itself expects
vectors = 0
for path in sorted(glob.glob(f"{INTEROP}/../vectors/*.json")):
    vector = json.load(open(path))
    want = [{k: v for k, v in row.items() if k != "type"} for row in vector["expected"] if row["type"] == "row"]
    for form in ("pyarrow parquet", "pyarrow arrow", "polars parquet", "duckdb parquet"):
        got = readers(f"vector.{vector['name']}")[form]()
        if not (len(got) == len(want) and close(got, want)):
            claim(f"vector {vector['name']} by {form}", False)
    beside = [json.loads(line) for line in open(f"{OUT}/vector.{vector['name']}.parquet.left-out.jsonl")]
    refused = [row for row in vector["expected"] if row["type"] == "failure"]
    if not (len(beside) == len(refused) and all(close(b, r) for b, r in zip(beside, refused))):
        claim(f"vector {vector['name']}: refusals beside the file", False)
    vectors += 1
claim(f"{vectors} vectors, rows by four readers and refusals beside the file", vectors > 0)

# ---- bits
lengths = np.fromfile(f"{OUT}/random.lengths", np.uint32)
ids, logprobs = np.fromfile(f"{OUT}/random.ids", np.uint32), np.fromfile(f"{OUT}/random.logprobs", np.float32)
rewards = np.fromfile(f"{OUT}/random.rewards", np.float64)
for name, read in readers("random").items():
    got = read()
    flat = lambda key, dtype: np.concatenate([np.asarray(row[key], dtype) for row in got])
    same = ([len(r["token_ids"]) for r in got] == lengths.tolist() and (flat("token_ids", np.uint32) == ids).all()
            and (flat("logprobs", np.float32).view(np.uint32) == logprobs.view(np.uint32)).all()
            and [r["reward"] for r in got] == rewards.tolist())
    claim(f"{name}: {len(ids)} random token ids up to 2^32 - 1, log-probs and rewards bit for bit", bool(same))

# ---- types, compression, metadata
file = pq.ParquetFile(f"{OUT}/near.parquet")
types = {f.name: str(f.type) for f in file.schema_arrow}
claim("types are uint32, uint8, float32", [types[k] for k in ("token_ids", "loss_mask", "logprobs")] == [
    "list<item: uint32 not null>", "list<item: uint8 not null>", "list<item: float not null>"])
columns = [file.metadata.row_group(0).column(i) for i in range(file.metadata.num_columns)]
claim("zstd everywhere, no dictionary", all(c.compression == "ZSTD" and not c.has_dictionary_page for c in columns))
meta = {k.decode(): v.decode() for k, v in file.schema_arrow.metadata.items() if k.startswith(b"coppice.")}
claim(f"metadata {meta}", meta["coppice.schema_version"] == "1" and meta["coppice.shape"] == "rows"
      and meta["coppice.temperature"] == "1.0" and meta["coppice.logprobs_mode"] == "raw" and meta["coppice.advantage"] == "mean")
claim("Arrow has the same metadata", {k.decode(): v.decode() for k, v in arrow_file(f"{OUT}/near.arrow").schema.metadata.items()} == meta)

# ---- one query that finds a lost row
lost = duckdb.sql(f"select rollout_id from '{OUT}/near.parquet' group by rollout_id having count(*) <> any_value(segment_count)").fetchall()
claim("count(*) = segment_count for each rollout", lost == [])

# ---- traps of type inference: 1.0 three thousand times, then 0.5
T = f"{OUT}/trap.jsonl"
claim("duckdb reads 0.5 after 3,000 times 1.0", duckdb.sql(f"select min(reward) from read_json('{T}', sample_size=1000)").fetchall() == [(0.5,)])
claim("polars too", pl.read_ndjson(T, infer_schema_length=100)["reward"].min() == 0.5)
claim("pyarrow too", pa.compute.min(pj.read_json(T, read_options=pj.ReadOptions(block_size=65536))["reward"]).as_py() == 0.5)
claim("datasets too", min(datasets.load_dataset("json", data_files=T, split="train", chunksize=65536)["reward"]) == 0.5)

versions = {m.__name__: m.__version__ for m in (datasets, pa, pl, duckdb)}
print(json.dumps({"check": "neutral", "versions": versions, "ok": not failed, "claims": done, "failed": failed, "vectors": vectors,
                  "random_tokens": int(len(ids)), "seconds": round(time.time() - STARTED, 1)}))
sys.exit(1 if failed else 0)
