import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import test from "ava";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { eventually } from "../../support/programs.ts";
import { setUpRestore } from "./restoreSetup.ts";

const PROGRAM = fileURLToPath(new URL("../../../cli/main.ts", import.meta.url));
const HOUR = 60 * 60;

test("commands that repair a failover and are killed while they read the processor's sums can be repeated, and the sums agree", async (t) => {
  const scene = await setUpRestore(t);
  const { register, drain, control, double } = scene;
  // The commands are processes of their own, so their clock is the machine's.
  const start = Math.floor(Date.now() / 60_000) * 60 - 3 * HOUR;
  control.holdClock({ second: start });
  await register(scene.original, 52);
  scene.pass(60);
  await drain(scene.original);
  await register(scene.original, 10);
  scene.pass(1);
  const { continued, restored } = await scene.fork(scene.original);
  await register(continued, 24);
  scene.pass(60);
  await register(continued, 7);
  scene.pass(10);
  await drain(continued);
  await guardUsage(restored.deps);
  control.holdClock({ second: Math.floor(Date.now() / 1000) });

  const run = (args: readonly string[]) =>
    spawn(process.execPath, [PROGRAM, ...args], {
      env: {
        ...process.env,
        DATABASE_URL: restored.url,
        STRIPE_SECRET_KEY: double.secretKey,
        STRIPE_API_BASE: double.url,
      },
      stdio: "ignore",
    });
  /** Kills the command while the given read of a sum waits for its response. */
  const killAtRead = async (args: readonly string[], read: number): Promise<void> => {
    const sums = {
      method: "GET",
      path: `/v1/billing/meters/${control.meterIds().tree}/event_summaries`,
    } as const;
    if (read > 1) {
      control.addFault({ ...sums, kind: "slow", delayMs: 0, times: read - 1 });
    }
    control.addFault({ ...sums, kind: "hold" });
    const command = run(args);
    const exited = once(command, "exit");
    await eventually(() => control.held() === 1);
    command.kill("SIGKILL");
    t.deepEqual(await exited, [null, "SIGKILL"]);
    control.clearFaults();
    control.release();
  };
  const finish = async (args: readonly string[]): Promise<void> => {
    t.deepEqual(await once(run(args), "exit"), [0, null]);
  };

  // The hold began three hours ago by the database's record of the double's clock.
  const compare = ["usage", "compare-and-release"];
  await killAtRead(compare, 1);
  await finish(compare);
  await drain(restored);
  const restoredAt = new Date((start + 60) * 1000).toISOString();
  const correct = ["usage", "correct", "--restored-at", restoredAt, "--reason", "failover"];
  await killAtRead(correct, 1);
  await killAtRead(correct, 4);
  await finish(correct);
  await finish(correct);
  await drain(restored);

  t.is(
    control.usage({}).reduce((sum, { value }) => sum + value, 0),
    62,
  );
});
