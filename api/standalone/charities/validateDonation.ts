import type { Client } from "@temporalio/client";
import { WithStartWorkflowOperation } from "@temporalio/client";
import type { DonationOutcome } from "../../../domain/donations.ts";
import { callTemporalWithin } from "../../../program/callTemporalWithin.ts";
import { donation, donationWorkflowId, validateUpdate } from "../../../workflows/donation.ts";
import { INTERACTIVE_QUEUE } from "../../../workflows/taskQueues.ts";

/** Above all that the check itself may take, so that its own words reach the client where it fails. */
const ANSWER_WITHIN_MS = 6000;

/** Has a requested donation decided upon; throws when there is no answer in time, which leaves the outcome open. */
export type ValidateDonation = (donationId: string) => Promise<DonationOutcome>;

/** Starts the donation's workflow, or joins it where it runs, and waits for its outcome. */
export const createDonationValidator =
  (temporal: Client, answerWithinMs = ANSWER_WITHIN_MS): ValidateDonation =>
  (donationId) =>
    callTemporalWithin(temporal, answerWithinMs, () =>
      temporal.workflow.executeUpdateWithStart(validateUpdate, {
        updateId: donationId,
        startWorkflowOperation: new WithStartWorkflowOperation(donation, {
          workflowId: donationWorkflowId(donationId),
          taskQueue: INTERACTIVE_QUEUE,
          args: [donationId],
          workflowIdConflictPolicy: "USE_EXISTING",
        }),
      }),
    );
