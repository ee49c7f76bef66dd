#!/usr/bin/env node
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/*
 * The entry point of `impact`. Node runs TypeScript from 22.18 on; an older Node runs this JavaScript, which starts the
 * Node that `npm ci` has installed.
 */

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);

if (major > 22 || (major === 22 && minor >= 18)) {
  await import("../runtime/config/enableCompileCache.js");
  await import("../runtime/config/loadEnvFile.ts");
  await import("./main.ts");
} else {
  const node = fileURLToPath(new URL("../node_modules/.bin/node", import.meta.url));
  if (existsSync(node)) {
    const main = fileURLToPath(new URL("main.ts", import.meta.url));
    const envFile = new URL("../runtime/config/loadEnvFile.ts", import.meta.url).href;
    const { status, signal } = spawnSync(
      node,
      ["--import", envFile, main, ...process.argv.slice(2)],
      { stdio: "inherit" },
    );
    if (signal) {
      process.kill(process.pid, signal);
    }
    process.exitCode = status ?? 1;
  } else {
    process.stderr.write(
      `impact needs Node 22.18 or newer; this is ${process.versions.node}. Install a newer Node, or run \`npm ci\` in the folder of impact.\n`,
    );
    process.exitCode = 1;
  }
}
