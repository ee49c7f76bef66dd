import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import { z } from "zod";
import { stopLeftovers } from "../../embedded/supervisor.ts";
import { isRunning } from "../../runtime/processIdentity.ts";
import { eventually } from "../support/programs.ts";

const BENCH = fileURLToPath(new URL("../../bench/main.ts", import.meta.url));

const startedProcesses = z.array(
  z.object({ name: z.string(), pid: z.int(), startedAt: z.string() }),
);
type StartedProcesses = z.output<typeof startedProcesses>;

/** Returns the processes that a benchmark has started; none before the first one runs. */
const readProcesses = async (parent: string): Promise<StartedProcesses> => {
  try {
    const [folder = ""] = await readdir(parent);
    const text = await readFile(join(parent, folder, "processes.json"), "utf8");
    return startedProcesses.parse(JSON.parse(text));
  } catch {
    return [];
  }
};

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
    for (const folder of await readdir(parent)) {
      await stopLeftovers(join(parent, folder), () => {});
    }
    await rm(parent, { recursive: true, force: true });
  });
  let processes: StartedProcesses = [];
  await eventually(async () => {
    processes = await readProcesses(parent);
    return processes.some(({ name }) => name === "worker/main.ts");
  });
  t.deepEqual(
    processes.map(({ name }) => name),
    ["PostgreSQL", "Temporal server", "worker/main.ts"],
  );

  // Ctrl-C arrives twice: from the terminal, and forwarded by npm.
  bench.kill("SIGTERM");
  bench.kill("SIGTERM");
  const [code] = await exited;

  t.is(code, 130);
  t.deepEqual(
    processes.filter((each) => isRunning(each)),
    [],
  );
  t.deepEqual(await readdir(parent), []);
});
