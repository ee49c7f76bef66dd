#!/usr/bin/env node
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/*
 * What `impact` starts. JavaScript that old releases of Node can read, since the program itself is TypeScript, which
 * Node runs from 22.18 on: an older one hands over to the Node that `npm ci` has put beside it.
 */

// As the other programs do through npm; what is set already wins.
if (existsSync(".env")) {
  process.loadEnvFile?.();
}

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);

if (major > 22 || (major === 22 && minor >= 18)) {
  await import("./main.ts");
} else {
  const node = fileURLToPath(new URL("../node_modules/node/bin/node", import.meta.url));
  if (existsSync(node)) {
    const main = fileURLToPath(new URL("main.ts", import.meta.url));
    const { status, signal } = spawnSync(node, [main, ...process.argv.slice(2)], {
      stdio: "inherit",
    });
    if (signal) {
      process.kill(process.pid, signal);
    }
    process.exitCode = status ?? 1;
  } else {
    process.stderr.write(
      `impact needs Node 22.18 or newer, and this is ${process.versions.node}. Install a newer one, or run \`npm ci\` in its folder.\n`,
    );
    process.exitCode = 1;
  }
}
