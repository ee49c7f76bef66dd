import { once } from "node:events";
import { createInterface } from "node:readline";
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Connection } from "@temporalio/client";
import { msToTs } from "@temporalio/common/lib/time.js";
import { sumLedgerUnits } from "../support/sumLedgerUnits.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { eventually, TEMPORAL_ADDRESS } from "../support/programs.ts";

const test = testWithDatabase();

test("a worker waits for its namespace, which it logs, and works when it appears", async (t) => {
  const { db, databaseUrl } = t.context;
  const namespace = `test-${crypto.randomUUID()}`;
  const child = fork(fileURLToPath(new URL("../../worker/main.ts", import.meta.url)), {
    env: {
      ...process.env,
      DATABASE_URL: databaseUrl,
      TEMPORAL_ADDRESS,
      TEMPORAL_NAMESPACE: namespace,
      WORKER_METRICS_PORT: "0",
      LOG_LEVEL: "warn",
    },
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  t.teardown(async () => {
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  });
  const lines: string[] = [];
  if (child.stdout === null) {
    throw new Error("The worker's output is not read.");
  }
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  const waiting = (): readonly string[] =>
    lines.filter((line) => line.includes(`Namespace ${namespace} was not found`));
  const [ready] = await once(child, "message");
  await eventually(() => waiting().length > 0);
  const readiness = await fetch(`${ready.urls.metrics}/readyz`);
  t.is(readiness.status, 503);

  const { id } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  await writer.register(registrationOf(id, { mode: "test", count: 3 }));
  const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
  t.teardown(() => connection.close());
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs("1 day"),
  });

  await eventually(
    async () => (await sumLedgerUnits(db, { accountId: id, mode: "test", kind: "tree" })) === 3,
  );
  t.true(waiting().length <= 2, "once a minute for each task queue");
  t.is(child.exitCode, null);
});
