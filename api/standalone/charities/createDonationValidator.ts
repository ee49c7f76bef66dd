import type { Client } from "@temporalio/client";
import { WithStartWorkflowOperation } from "@temporalio/client";
import { withTemporalDeadline } from "../../../program/withTemporalDeadline.ts";
import type { ValidateDonation } from "../../../services/charities/donate.ts";
import { donation, donationWorkflowId, validateUpdate } from "../../../workflows/donation.ts";
import { INTERACTIVE_QUEUE } from "../../../workflows/taskQueues.ts";

/** Above all that the check itself may take, so that its own words reach the client where it fails. */
const ANSWER_WITHIN_MS = 6000;

/** Starts the donation's workflow, or joins it where it runs, and waits for its outcome. */
export const createDonationValidator =
  (temporal: Client, answerWithinMs = ANSWER_WITHIN_MS): ValidateDonation =>
  (donationId) =>
    withTemporalDeadline(temporal, answerWithinMs, () =>
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
