// Builds the page into `dist/page/site`: one script and one style sheet, so that a saved page can carry both.
import { fileURLToPath } from "node:url";
import { defineConfig, type UserConfigExport } from "vite";

const config: UserConfigExport = defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: fileURLToPath(new URL("../dist/page/site", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    // Fonts stay files of their own: a style sheet that waits for them would hold the page back.
    assetsInlineLimit: 0,
    rolldownOptions: { output: { codeSplitting: false } },
  },
});
export default config;
