import { defineConfig, type ViteUserConfigExport } from "vitest/config";

const config: ViteUserConfigExport = defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    testTimeout: 30_000,
    // Two cores: more workers than that only add noise to the tests that start processes.
    maxWorkers: 2,
  },
});
export default config;
