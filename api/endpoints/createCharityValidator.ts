import { WithStartWorkflowOperation } from "@temporalio/client";
import type { Client } from "@temporalio/client";
import { SpanKind } from "@opentelemetry/api";
import { activeTraceParent, inSpan } from "../../runtime/tracing.ts";
import { withTemporalDeadline } from "../../runtime/temporalClient.ts";
import { donation, validationUpdate } from "../../workflows/donation.ts";
import { donationWorkflowId, interactiveQueue } from "../../runtime/temporalNames.rules.ts";
import type { ValidateCharity } from "../../modules/charities/context.ts";

/** Longer than the provider's own timeouts, so that their errors reach the client. */
const TIMEOUT_MS = 6000;

/** The provider is called within the workflow's task. If its worker is lost, another one gets the task after this time. */
const TASK_TIMEOUT_MS = 5000;

/** Runs the workflow of a donation and waits for its result. */
export const createCharityValidator =
  (
    temporal: Client,
    getDeployment: () => Promise<string>,
    timeoutMs = TIMEOUT_MS,
  ): ValidateCharity =>
  async (donationId, lookup) => {
    const deployment = await getDeployment();
    const run = (args: Parameters<typeof donation>) =>
      withTemporalDeadline(temporal, timeoutMs, () =>
        temporal.workflow.executeUpdateWithStart(validationUpdate, {
          updateId: donationId,
          startWorkflowOperation: new WithStartWorkflowOperation(donation, {
            workflowId: donationWorkflowId(deployment, donationId),
            // The client repeats a request that was interrupted.
            workflowIdConflictPolicy: "USE_EXISTING",
            taskQueue: interactiveQueue(deployment),
            workflowTaskTimeout: TASK_TIMEOUT_MS,
            args,
          }),
        }),
      );
    return inSpan("run workflow donation", { kind: SpanKind.CLIENT }, () => {
      const parent = activeTraceParent();
      return run(parent === undefined ? [lookup] : [lookup, parent]);
    });
  };
