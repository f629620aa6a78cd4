// Bundles entry.js into src/report/assets/echarts.js, or says with --check whether that file is what a build would give.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const OUT = fileURLToPath(new URL("../src/report/assets/echarts.js", import.meta.url));
const version = JSON.parse(await readFile(new URL("node_modules/echarts/package.json", import.meta.url), "utf8")).version;
const words = async (path) => (await readFile(new URL(`node_modules/${path}`, import.meta.url), "utf8")).trim().split("\n");

const banner = [
  "/*!",
  ` * Apache ECharts ${version}, a bundle of what a report uses (crates/lab-report/echarts). Apache License 2.0.`,
  ...(await words("echarts/NOTICE")).map((line) => ` * ${line}`.trimEnd()),
  " * With tslib (0BSD, Copyright (c) Microsoft Corporation) and zrender:",
  ...(await words("zrender/LICENSE")).map((line) => ` * ${line}`.trimEnd()),
  " */",
].join("\n");

const result = await build({
  entryPoints: [fileURLToPath(new URL("entry.js", import.meta.url))],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "echarts",
  target: ["es2020"],
  legalComments: "none",
  banner: { js: banner },
  define: { "process.env.NODE_ENV": '"production"' },
  write: false,
});
const text = `${result.outputFiles[0].text.trimEnd()}\n`;

if (process.argv.includes("--check")) {
  if ((await readFile(OUT, "utf8")) !== text) {
    console.error("src/report/assets/echarts.js is not what entry.js gives: npm ci && npm run build");
    process.exit(1);
  }
} else {
  await writeFile(OUT, text);
  console.log(`${OUT}: ${text.length} bytes`);
}
