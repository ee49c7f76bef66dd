import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import { listProcesses } from "../support/listProcesses.ts";
import { eventually } from "../support/programs.ts";

const BENCH = fileURLToPath(new URL("../../bench/main.ts", import.meta.url));

test("a benchmark that is interrupted ends all that it has started", async (t) => {
  const parent = await mkdtemp(join(tmpdir(), "impact-interrupted-"));
  // The database server may run as another user.
  await chmod(parent, 0o755);
  const bench = spawn(process.execPath, [BENCH, "report", "--accounts", "10"], {
    env: { ...process.env, TMPDIR: parent },
    stdio: "ignore",
  });
  const exited = once(bench, "exit");
  t.teardown(async () => {
    bench.kill("SIGKILL");
    await rm(parent, { recursive: true, force: true });
  });
  let folder = "";
  await eventually(async () => {
    folder = join(parent, (await readdir(parent))[0] ?? "");
    return (await listProcesses(folder)).has("worker");
  });
  t.deepEqual([...(await listProcesses(folder)).keys()].toSorted(), [
    "PostgreSQL",
    "Temporal server",
    "worker",
  ]);

  // Ctrl-C arrives twice: from the terminal, and forwarded by npm.
  bench.kill("SIGTERM");
  bench.kill("SIGTERM");
  const [code] = await exited;

  t.is(code, 130);
  t.deepEqual(await listProcesses(folder), new Map());
  t.deepEqual(await readdir(parent), []);
});
