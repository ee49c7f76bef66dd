import { ApplicationFailure } from "@temporalio/common";
import { z } from "zod";
import { systemClock } from "../../domain/clock.ts";
import { findSender } from "../../program/usageSenders.ts";
import { getDeploymentName } from "../../services/billing/deploymentName.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { usageSender, usageSenderWorkflowId } from "../../workflows/usageSender.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { eventually, TEMPORAL_ADDRESS } from "../support/programs.ts";
import { startWorker } from "../workflows/startWorker.ts";
import { readJson, runImpact } from "./runImpact.ts";

// Serial, because some tests wake the senders of all accounts.
const test = testWithDatabase();

const results = z.array(
  z.strictObject({
    account_id: z.uuid(),
    mode: z.literal("test"),
    meter: z.literal("tree"),
    oldest: z.iso.datetime(),
    sender: z.string(),
  }),
);

test.serial(
  "usage send-now wakes the senders of pending usage, and restarts one that waits",
  async (t) => {
    const { db, databaseUrl } = t.context;
    const deployment = await getDeploymentName({ db, clock: systemClock });
    const temporal = await startWorker(t, {
      drainUsage: () => {
        throw ApplicationFailure.create({ message: "later", nextRetryDelay: "10 minutes" });
      },
    });
    const writer = createRegistrationWriter({ db, clock: systemClock });
    const register = async () => {
      const { id: accountId } = await createTestOrganization(db);
      await writer.register(registrationOf(accountId, { mode: "test" }));
      return { accountId, mode: "test", meter: "tree" } as const;
    };
    const waiting = await register();
    const unstarted = await register();
    const { firstExecutionRunId } = await temporal.workflow.start(usageSender, {
      workflowId: usageSenderWorkflowId(deployment, waiting),
      taskQueue: "test",
      args: [waiting],
    });
    await eventually(
      async () =>
        (await findSender(temporal, usageSenderWorkflowId(deployment, waiting), new Date()))
          ?.state === "delayed",
    );
    const impact = (...args: readonly string[]) =>
      runImpact(["usage", "send-now", ...args], {
        env: {
          DATABASE_URL: databaseUrl,
          TEMPORAL_ADDRESS,
          TEMPORAL_NAMESPACE: temporal.options.namespace,
        },
      });
    const senders = async (...args: readonly string[]) => {
      const run = await impact("--json", ...args);
      t.is(run.exitCode, 0, run.stderr);
      return Object.fromEntries(
        results.parse(readJson(run)).map(({ account_id: id, sender }) => [id, sender]),
      );
    };

    t.deepEqual(await senders("--org", waiting.accountId), { [waiting.accountId]: "restarted" });
    t.is(
      await findSender(temporal, usageSenderWorkflowId(deployment, unstarted), new Date()),
      null,
    );
    t.deepEqual(await senders(), { [waiting.accountId]: "woken", [unstarted.accountId]: "woken" });

    const sender = await findSender(
      temporal,
      usageSenderWorkflowId(deployment, waiting),
      new Date(),
    );
    t.not(sender?.runId, firstExecutionRunId);
    t.truthy(await findSender(temporal, usageSenderWorkflowId(deployment, unstarted), new Date()));
    const table = await impact();
    t.regex(table.stdout, /woken/u);
    t.regex(table.stderr, /usage of 2 stream\(s\)/u);
    const unknown = await impact("--org", "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11");
    t.is(unknown.exitCode, 3);
  },
);

test.serial("usage send-now without pending usage says so", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id } = await createTestOrganization(db);
  const run = await runImpact(["usage", "send-now", "--org", id], {
    env: { DATABASE_URL: databaseUrl },
  });
  t.is(run.exitCode, 0);
  t.regex(run.stderr, /No usage is pending/u);
});
