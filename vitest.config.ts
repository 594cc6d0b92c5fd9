import { defineConfig, type ViteUserConfigExport } from "vitest/config";

const config: ViteUserConfigExport = defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts", "web/src/**/*.test.ts"],
    // Starts PostgreSQL when a test asks for it.
    globalSetup: ["src/ledger/testing/postgres-server.ts"],
    testTimeout: 30_000,
    // Threads inherit this: the ledger's runs from its source.
    execArgv: ["--import", new URL("./test/typescript/register.mjs", import.meta.url).href],
    // Two cores: more workers than that only add noise to the tests that start processes.
    maxWorkers: 2,
  },
});
export default config;
