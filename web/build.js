/** Make dist/ from src/: the same bytes wherever it runs. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { build } from "esbuild";

const here = new URL(".", import.meta.url);
const read = (/** @type {string} */ name) => readFileSync(new URL(name, here), "utf8");

/** Names what the bundle was made from, so that a bundle left behind is noticed. */
function stamp() {
  const names = readdirSync(new URL("src/", here))
    .sort()
    .map((name) => `src/${name}`);
  const hash = createHash("sha256");
  for (const name of ["build.js", "package-lock.json", ...names]) hash.update(read(name) + "\0");
  return hash.digest("hex").slice(0, 16);
}

const { version } = JSON.parse(read("package.json"));
const banner = `/*! Sfumato telemetry ${version}, Apache-2.0. Sources ${stamp()}. */`;
const licence = read("node_modules/@noble/hashes/LICENSE").trim();
const footer = `/*! Contains @noble/hashes.\n${licence}\n*/`;
const shapes = {
  "sfumato-telemetry.js": { format: "esm" },
  "sfumato-telemetry.script.js": { format: "iife", globalName: "sfumato" },
};

for (const [name, shape] of Object.entries(shapes)) {
  await build({
    absWorkingDir: import.meta.dirname,
    entryPoints: ["src/index.js"],
    outfile: `dist/${name}`,
    bundle: true,
    minify: true,
    charset: "utf8",
    target: "es2022",
    banner: { js: banner },
    footer: { js: footer },
    logLevel: "warning",
    .../** @type {any} */ (shape),
  });
}
