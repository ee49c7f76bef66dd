import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import test from "ava";
import { makeTestFolder } from "../support/makeTestFolder.ts";

const LAUNCHER = fileURLToPath(new URL("../../cli/impact.js", import.meta.url));

test("the launcher runs the program and returns its exit code", async (t) => {
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, [LAUNCHER, "--version"]);
  t.regex(stdout, /^\d+\.\d+\.\d+(-rc\.\d+)?\n$/u);
  await t.throwsAsync(run(process.execPath, [LAUNCHER, "frob"]), { code: 2 });
});

test("an older Node that cannot read .env starts a newer one, which reads it", async (t) => {
  const folder = await makeTestFolder(t);
  await writeFile(join(folder, ".env"), "DATABASE_URL=nonsense\n");
  const asOldNode = `data:text/javascript,${encodeURIComponent(
    `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.11.0" } });
    delete process.loadEnvFile;`,
  )}`;
  const run = promisify(execFile);
  const error = await t.throwsAsync(
    run(process.execPath, ["--import", asOldNode, LAUNCHER, "org", "list"], {
      cwd: folder,
      env: { PATH: process.env["PATH"] },
    }),
  );
  t.regex(error?.message ?? "", /DATABASE_URL must be a URL/u);
});

test("a closed output pipe is not an error", async (t) => {
  const child = execFile(process.execPath, [LAUNCHER, "--help"]);
  child.stdout?.destroy();
  const [errors, exitCode] = await Promise.all([
    child.stderr?.setEncoding("utf8").toArray(),
    new Promise<number | null>((resolve) => {
      child.on("exit", resolve);
    }),
  ]);
  t.deepEqual(errors, []);
  t.is(exitCode, 0);
});

test("output that cannot be written is reported in one sentence", async (t) => {
  const full = await open("/dev/full", "w");
  t.teardown(() => full.close());
  for (const [args, message] of [
    [["--help"], /^impact: The output cannot be written: ENOSPC[^\n]*\n$/u],
    [
      ["org", "list", "--help", "--json"],
      /^\{"error":"The output cannot be written: ENOSPC[^\n]*","exit_code":1\}\n$/u,
    ],
  ] as const) {
    const child = spawn(process.execPath, [LAUNCHER, ...args], {
      stdio: ["ignore", full.fd, "pipe"],
    });
    const [errors, [exitCode]] = await Promise.all([
      child.stderr?.setEncoding("utf8").toArray(),
      once(child, "exit"),
    ]);
    t.is(exitCode, 1);
    t.regex(errors?.join("") ?? "", message);
  }
});
