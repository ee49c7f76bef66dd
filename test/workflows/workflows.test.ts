import test from "ava";
import * as workflows from "../../workflows/index.ts";
import { WithStartWorkflowOperation } from "@temporalio/client";
import type {
  Client,
  WorkflowHandle,
  WorkflowHandleWithFirstExecutionRunId,
} from "@temporalio/client";
import { ApplicationFailure } from "@temporalio/common";
import type { Workflow } from "@temporalio/common";
import { historyToJSON } from "@temporalio/common/lib/proto-utils.js";
import { Worker } from "@temporalio/worker";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { BillingActivities } from "../../activities/createBillingActivities.ts";
import type { DonationActivities } from "../../activities/createDonationActivities.ts";
import { createPerpetualActivities } from "../../activities/createPerpetualActivities.ts";
import type { PerpetualActivities } from "../../activities/createPerpetualActivities.ts";
import type { PlantingActivities } from "../../activities/createPlantingActivities.ts";
import type { RetentionActivities } from "../../activities/createRetentionActivities.ts";
import type { CharityValidation } from "../../modules/charities/charities.rules.ts";
import { backgroundQueue, donationWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import { donation, validationUpdate } from "../../workflows/donation.ts";
import { perpetualWork } from "../../workflows/perpetualWork.ts";
import { plantingOrder, plantingOrderCreation } from "../../workflows/planting.ts";
import { reconciliation } from "../../workflows/reconciliation.ts";
import { refund, refundedSignal } from "../../workflows/refund.ts";
import { retention } from "../../workflows/retention.ts";
import { eventually } from "../support/programs.ts";
import { startWorker } from "./startWorker.ts";

/** Scripted activities, and what runs the workflow whose history is recorded. */
type Recording = {
  readonly activities: Partial<
    BillingActivities &
      DonationActivities &
      PerpetualActivities &
      PlantingActivities &
      RetentionActivities
  >;
  readonly run: (client: Client) => Promise<WorkflowHandle>;
};

/** Returns an activity that produces the results in order and repeats the last one. */
const inOrder = <Result>(...results: readonly (() => Result)[]): (() => Promise<Result>) => {
  let calls = 0;
  return () => {
    const result = results[Math.min(calls, results.length - 1)];
    calls += 1;
    if (!result) {
      throw new Error("The activity has no results.");
    }
    return Promise.resolve(result());
  };
};

/** Waits until a workflow and the runs that continue it have ended, and returns its first run. */
const firstRunOf = async (client: Client, handle: WorkflowHandleWithFirstExecutionRunId) => {
  await handle.result();
  return client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
};

const DEPLOYMENT = "recorded";
const REGISTRATION = "01920000-0000-7000-8000-000000000001";

const unsettled = (): never => {
  throw ApplicationFailure.create({ message: "not settled", type: "refund_unsettled" });
};

const runDonation: Recording["run"] = async (client) => {
  const startWorkflowOperation = new WithStartWorkflowOperation(donation, {
    ...options(donationWorkflowId(DEPLOYMENT, REGISTRATION)),
    workflowIdConflictPolicy: "USE_EXISTING",
    args: [{ provider: "everyorg", accountId: "org", ein: "000000000", nonprofitId: null }],
  });
  await client.workflow.executeUpdateWithStart(validationUpdate, { startWorkflowOperation });
  const handle = await startWorkflowOperation.workflowHandle();
  await handle.result();
  return handle;
};

const options = (workflowId: string) => ({ taskQueue: backgroundQueue(DEPLOYMENT), workflowId });

/** Runs a workflow until it completes. */
const complete =
  (workflow: Workflow, workflowId: string, args: unknown[] = []): Recording["run"] =>
  async (client) => {
    const handle = await client.workflow.start(workflow, { ...options(workflowId), args });
    await handle.result();
    return handle;
  };

/** One for each path through a workflow. */
const RECORDINGS: Readonly<Record<string, Recording>> = {
  "perpetual-work": {
    activities: { workForAMinute: inOrder<undefined>(() => undefined) },
    run: async (client) => {
      const handle = await client.workflow.start(perpetualWork, {
        ...options("usage-sender"),
        args: ["usage-sender"],
      });
      const first = client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
      await eventually(async () => (await first.describe()).status.name === "CONTINUED_AS_NEW");
      await handle.terminate();
      return first;
    },
  },
  "refund-refunded-again": {
    activities: { confirmRefund: inOrder<undefined>(unsettled, unsettled, () => undefined) },
    run: async (client) => {
      const handle = await client.workflow.signalWithStart(refund, {
        ...options(`refund-${REGISTRATION}`),
        args: [REGISTRATION],
        signal: refundedSignal,
      });
      await handle.signal(refundedSignal);
      await handle.result();
      return handle;
    },
  },
  "refund-continued": {
    activities: {
      confirmRefund: inOrder<undefined>(
        ...Array.from({ length: 8 }, () => unsettled),
        () => undefined,
      ),
    },
    run: async (client) => {
      const run = await client.workflow.start(refund, {
        ...options(`refund-${REGISTRATION}`),
        args: [REGISTRATION, "3 seconds"],
      });
      return firstRunOf(client, run);
    },
  },
  "planting-order": {
    activities: {
      pollPlantingOrder: inOrder<{ isFinished: boolean; nextPollMs: number }>(
        () => ({ isFinished: false, nextPollMs: 200 }),
        () => ({ isFinished: true, nextPollMs: 60_000 }),
      ),
    },
    run: complete(plantingOrder, "planting-order-recorded", [7]),
  },
  "planting-order-creation": {
    activities: { createPlantingOrders: inOrder<undefined>(() => undefined) },
    run: complete(plantingOrderCreation, "planting-order-creation-recorded"),
  },
  "donation-confirmed": {
    activities: {
      validateCharity: inOrder<CharityValidation>(() => ({
        kind: "confirmed",
        provider: "everyorg",
        charity: {
          nonprofitId: "a-charity",
          name: "A charity",
          ein: "000000000",
          description: "",
          website: "",
          iconUrl: "",
        },
      })),
    },
    run: runDonation,
  },
  "donation-rejected": {
    activities: {
      validateCharity: inOrder<CharityValidation>(() => ({
        kind: "rejected",
        code: "charity_not_found",
        message: "no charity found",
      })),
    },
    run: runDonation,
  },
  "donation-unavailable": {
    activities: {
      validateCharity: inOrder<CharityValidation>(() => {
        throw ApplicationFailure.create({ message: "the worker was lost" });
      }),
    },
    run: runDonation,
  },
  retention: {
    activities: { deleteOldData: inOrder(() => ({ events: 5 })) },
    run: complete(retention, "retention-recorded"),
  },
  "reconciliation-succeeded": {
    activities: {
      reconcileUsage: inOrder(() => ({ compared: 3, drifting: 0 })),
      compareInvoices: inOrder(() => ({ read: 3, failed: 0 })),
      creditTopUps: inOrder(() => 1),
    },
    run: complete(reconciliation, "reconciliation/recorded"),
  },
};

test("the activity of perpetual work sends heartbeats, and another worker continues up to 13 seconds after the last", async (t) => {
  const run = Promise.withResolvers<void>();
  const runs = { run: () => run.promise, end: () => Promise.resolve() };
  const client = await startWorker(
    t,
    createPerpetualActivities({
      runs: { "usage-sender": runs, "webhook-sender": runs, dispatcher: runs },
      stopping: new AbortController().signal,
    }),
  );
  const handle = await client.workflow.start(perpetualWork, {
    workflowId: "usage-sender",
    taskQueue: "test",
    args: ["usage-sender"],
  });
  t.teardown(() => run.reject(ApplicationFailure.nonRetryable("the test is over")));

  const findActivity = async () => (await handle.describe()).raw.pendingActivities?.[0];
  await eventually(async () => {
    const activity = await findActivity();
    return (
      Number(activity?.lastHeartbeatTime?.seconds) > Number(activity?.lastStartedTime?.seconds)
    );
  });
  t.is((await findActivity())?.attempt, 1);
  const { events } = await handle.fetchHistory();
  const scheduled = events?.find((event) => event.activityTaskScheduledEventAttributes);
  const { heartbeatTimeout, retryPolicy } = scheduled?.activityTaskScheduledEventAttributes ?? {};
  t.is(Number(heartbeatTimeout?.seconds), 10);
  t.is(Number(retryPolicy?.initialInterval?.seconds), 3);
});

test("a run that continues perpetual work has the time limit of the first one", async (t) => {
  const client = await startWorker(t, { workForAMinute: () => Promise.resolve() });
  const handle = await client.workflow.start(perpetualWork, {
    workflowId: "dispatcher",
    taskQueue: "test",
    args: ["dispatcher"],
  });
  t.teardown(() => handle.terminate());
  const first = client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
  await eventually(async () => (await first.describe()).status.name === "CONTINUED_AS_NEW");

  const { raw } = await client.workflow.getHandle(handle.workflowId).describe();
  t.is(Number(raw.executionConfig?.workflowRunTimeout?.seconds), 600);
});

const FOLDER = new URL("./histories/", import.meta.url);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/*
 * npm run record-histories -- --match='*NAME' records a new history when a workflow gets a new path. After a release, keep the
 * recorded ones: workflows that started under them may still be running.
 */
if (process.env["WRITE_HISTORIES"] !== undefined) {
  for (const [name, { activities, run }] of Object.entries(RECORDINGS)) {
    test.serial(`record ${name}`, async (t) => {
      const handle = await run(await startWorker(t, activities, backgroundQueue(DEPLOYMENT)));
      const history = historyToJSON(await handle.fetchHistory())
        // Stack traces contain the folder of this checkout, and identities the name of the host.
        .replaceAll(ROOT, "/app/")
        .replaceAll(/"\d+@[^"]+"/gu, '"recorder"');
      await writeFile(new URL(`${name}.json`, FOLDER), `${history}\n`);
      t.pass();
    });
  }
}

const startedHistory = z.looseObject({
  events: z
    .tuple([
      z.looseObject({
        workflowExecutionStartedEventAttributes: z.looseObject({
          workflowType: z.object({ name: z.string() }),
        }),
      }),
    ])
    .rest(z.unknown()),
});

test("every workflow has recorded histories, and all of them replay, so a deployment breaks no running workflow", async (t) => {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith(".json")).toSorted();
  const histories = await Promise.all(
    names.map(async (name) => ({
      workflowId: name,
      history: JSON.parse(await readFile(new URL(name, FOLDER), "utf8")) as unknown,
    })),
  );
  const types = histories.map(({ history }) => {
    const [started] = startedHistory.parse(history).events;
    return started.workflowExecutionStartedEventAttributes.workflowType.name;
  });
  t.deepEqual([...new Set(types)].toSorted(), Object.keys(workflows).toSorted());

  const replayed: string[] = [];
  for await (const { workflowId, error } of Worker.runReplayHistories(
    { workflowBundle: await bundleWorkflows() },
    histories,
  )) {
    t.is(error, undefined, workflowId);
    replayed.push(workflowId);
  }

  t.deepEqual(replayed.toSorted(), names);
});
