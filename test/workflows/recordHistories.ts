import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client, Connection, WithStartWorkflowOperation } from "@temporalio/client";
import { ApplicationFailure } from "@temporalio/common";
import type { Workflow } from "@temporalio/common";
import { historyToJSON } from "@temporalio/common/lib/proto-utils.js";
import { NativeConnection, Worker } from "@temporalio/worker";
import type { CharityValidation } from "../../modules/charities/charities.rules.ts";
import { createSupervisor } from "../../embedded/supervisor.ts";
import { findTemporalCli } from "../../embedded/findTemporalCli.ts";
import { startTemporalServer } from "../../embedded/startTemporalServer.ts";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import { plantingOrder } from "../../workflows/plantingOrder.ts";
import { backgroundQueue, donationWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { plantingOrderCreation } from "../../workflows/plantingOrderCreation.ts";
import { donation, validationUpdate } from "../../workflows/donation.ts";
import { reconciliation } from "../../workflows/reconciliation.ts";
import { refund, refundedSignal } from "../../workflows/refund.ts";
import { retention } from "../../workflows/retention.ts";
import { perpetualWork } from "../../workflows/perpetualWork.ts";
import { activitiesCompleted, firstRunOf, inOrder } from "./recordingSteps.ts";
import type { Recording } from "./recordingSteps.ts";

/*
 * Records the histories that the replay test replays, one for each path through a workflow, from a real Temporal server
 * and scripted activities:
 *   node test/workflows/recordHistories.ts [NAME…]
 * Record a new history when a workflow gets a new path. After a release, keep the recorded ones: workflows that started
 * under them may still be running.
 */

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FOLDER = new URL("./histories/", import.meta.url);
/** Replaces the host name in the histories. */
const IDENTITY = "recorder";
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

const RECORDINGS: Readonly<Record<string, Recording>> = {
  "perpetual-work": {
    activities: { workForAMinute: inOrder<undefined>(() => undefined) },
    run: async (client) => {
      const handle = await client.workflow.start(perpetualWork, {
        ...options("usage-sender"),
        args: ["usage-sender"],
      });
      await activitiesCompleted(handle, 2);
      await handle.terminate();
      return handle;
    },
  },
  "refund-refunded-again": {
    activities: {
      confirmRefund: inOrder<undefined>(unsettled, unsettled, () => undefined),
    },
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
    activities: { deleteOldData: inOrder(() => ({ events: 5, reconciliations: 0 })) },
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

const record = async (address: string, name: string, recording: Recording): Promise<void> => {
  const connection = await NativeConnection.connect({ address });
  const clientConnection = await Connection.connect({ address });
  const worker = await Worker.create({
    connection,
    identity: IDENTITY,
    taskQueue: backgroundQueue(DEPLOYMENT),
    workflowBundle: await bundleWorkflows(),
    activities: recording.activities,
  });
  await worker.runUntil(async () => {
    const handle = await recording.run(
      new Client({ connection: clientConnection, identity: IDENTITY }),
    );
    // Stack traces contain the folder of this checkout.
    const history = historyToJSON(await handle.fetchHistory()).replaceAll(ROOT, "/app/");
    await writeFile(new URL(`${name}.json`, FOLDER), `${history}\n`);
    console.log(`recorded ${name}`);
  });
  await clientConnection.close();
  await connection.close();
};

const folder = await mkdtemp(join(tmpdir(), "impact-histories-"));
const supervisor = createSupervisor(folder, console.error);
try {
  const { address } = await startTemporalServer({
    cli: await findTemporalCli({
      setting: process.env["TEMPORAL_CLI"],
      context: supervisor.context,
    }),
    databaseFile: null,
    namespace: "default",
    port: 0,
    uiPort: null,
    logFile: join(folder, "temporal.log"),
    context: supervisor.context,
  });
  const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(RECORDINGS);
  for (const name of names) {
    const recording = RECORDINGS[name];
    if (!recording) {
      throw new Error(
        `There is no recording ${name}. Recordings: ${Object.keys(RECORDINGS).join(", ")}.`,
      );
    }
    await record(address, name, recording);
  }
} finally {
  await supervisor.stopAll();
  await rm(folder, { recursive: true, force: true });
}
