import type { Client } from "@temporalio/client";
import { withTemporalDeadline } from "../../program/temporalClient.ts";
import type { ValidateCharity } from "../../services/charities/confirmCharity.ts";
import { donation, donationWorkflowId } from "../../workflows/donation.ts";
import { INTERACTIVE_QUEUE } from "../../workflows/taskQueues.ts";

/** Longer than the provider's own timeouts, so that their errors reach the client. */
const TIMEOUT_MS = 6000;

/** Returns a function that runs the workflow of a donation and waits for its result. */
export const createCharityValidator =
  (temporal: Client, timeoutMs = TIMEOUT_MS): ValidateCharity =>
  (donationId, lookup) =>
    withTemporalDeadline(temporal, timeoutMs, () =>
      temporal.workflow.execute(donation, {
        workflowId: donationWorkflowId(donationId),
        taskQueue: INTERACTIVE_QUEUE,
        args: [lookup],
      }),
    );
