import { mock } from "node:test";
import { readDeployment } from "../../../db/billing/deployment.ts";
import { readServerStatus } from "../../../db/connections/serverStatus.ts";
import type { Run } from "../../cli/runImpact.ts";
import { runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";

const test = testWithDatabase();

const MINUTE_MS = 60 * 1000;
const HOLD = ["usage", "hold", "--reason", "restore"] as const;

/** Runs a command on a machine whose clock differs from the database's. The other tests of this process must wait. */
const runOnClock = async (
  databaseUrl: string,
  minutesAhead: number,
  args: readonly string[],
): Promise<Run> => {
  mock.timers.enable({ apis: ["Date"], now: Date.now() + minutesAhead * MINUTE_MS });
  try {
    return await runImpact(args, { env: { DATABASE_URL: databaseUrl } });
  } finally {
    mock.timers.reset();
  }
};

test.serial(
  "a hold begins when the database's clock says, on a machine whose clock is slow",
  async (t) => {
    const { db, databaseUrl } = t.context;
    const { now } = await readServerStatus(db);

    const run = await runOnClock(databaseUrl, -20, HOLD);

    t.is(run.exitCode, 0, run.stderr);
    const { hold } = await readDeployment(db);
    t.true(hold !== null && hold.at >= now, hold?.at.toISOString());
  },
);

test.serial(
  "a comparison after a restore waits for the lag on a machine whose clock is fast",
  async (t) => {
    const { databaseUrl } = t.context;
    await runImpact(HOLD, { env: { DATABASE_URL: databaseUrl } });

    const run = await runOnClock(databaseUrl, 20, ["usage", "reconcile", "--after-restore"]);

    t.is(run.exitCode, 1);
    t.regex(run.stderr, /sums may lag until/u);
  },
);
