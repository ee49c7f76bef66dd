import { WithStartWorkflowOperation } from "@temporalio/client";
import type {
  Client,
  WorkflowHandle,
  WorkflowHandleWithFirstExecutionRunId,
} from "@temporalio/client";
import { ApplicationFailure } from "@temporalio/common";
import type { Workflow } from "@temporalio/common";
import type { BillingActivities } from "../../activities/createBillingActivities.ts";
import type { DonationActivities } from "../../activities/createDonationActivities.ts";
import type { PerpetualActivities } from "../../activities/createPerpetualActivities.ts";
import type { PlantingActivities } from "../../activities/createPlantingActivities.ts";
import type { RetentionActivities } from "../../activities/createRetentionActivities.ts";
import type { CharityValidation } from "../../modules/charities/charities.rules.ts";
import { backgroundQueue, donationWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { donation, validationUpdate } from "../../workflows/donation.ts";
import { perpetualWork } from "../../workflows/perpetualWork.ts";
import { plantingOrder } from "../../workflows/plantingOrder.ts";
import { plantingOrderCreation } from "../../workflows/plantingOrderCreation.ts";
import { reconciliation } from "../../workflows/reconciliation.ts";
import { refund, refundedSignal } from "../../workflows/refund.ts";
import { retention } from "../../workflows/retention.ts";
import { eventually } from "../support/programs.ts";

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
const firstRunOf = async (
  client: Client,
  handle: WorkflowHandleWithFirstExecutionRunId,
): Promise<WorkflowHandle> => {
  await handle.result();
  return client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
};

export const DEPLOYMENT = "recorded";
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
export const RECORDINGS: Readonly<Record<string, Recording>> = {
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
