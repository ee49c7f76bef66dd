import { readUsage } from "../../modules/billing/readUsage.ts";
import type { RegistrationUsage } from "../../modules/billing/readUsage.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import type { UsageFact } from "../../modules/billing/usageFacts.sql.ts";
import { isAccepted, outcomeOf } from "../../modules/records/batches.rules.ts";
import { recordNotFound, shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { decideRefund } from "../../modules/registrations/decideRefund.rules.ts";
import { findRefundWindows } from "../../modules/registrations/readRefundWindow.ts";
import { findRegistration } from "../../modules/registrations/registrations.sql.ts";
import type { AccountRegistration } from "../../modules/registrations/registrations.sql.ts";
import { refundWorkflowId, usageShardWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { shardOf } from "../../db/shards.rules.ts";
import type { CliContext } from "../context.ts";
import { printFields, printJson, printObjects } from "../output/print.ts";
import type { JsonOption } from "../output/print.ts";
import { presentMeterEvent, printPlan } from "../output/printUsage.ts";

const presentFact = ({ id, quantity, refundId, second, meterEventId }: UsageFact) => ({
  fact: String(id),
  quantity,
  refund_id: refundId,
  at: timeOf(second),
  item: meterEventId === null ? null : `E${meterEventId}`,
});

/** Whether a refund is possible now, as far as that is known without a call to the processor. */
const canBeRefunded = async (
  { connections, clock }: CliContext,
  registration: AccountRegistration,
  { facts }: RegistrationUsage,
): Promise<boolean> => {
  if (registration.accountType === "store") {
    return registration.refundedCount < registration.count;
  }
  const [db, billing] = [await connections.database(), await connections.billing()];
  const [window = null] = (
    await findRefundWindows({ db, clock, billing }, [registration])
  ).values();
  const hasUsage = facts.length > 0;
  return (
    window === null ||
    isAccepted(
      outcomeOf(() => decideRefund({ ...registration, hasUsage }, null, window, clock.now())),
    )
  );
};

const planRegistration = (
  { id, isPrepaid }: AccountRegistration,
  { facts, failedEventIds }: RegistrationUsage,
  isRefundable: boolean,
): readonly string[] => {
  const hasUsage = facts.length > 0;
  if (!hasUsage && !isPrepaid) {
    return ["It has no usage: it was imported, so it is not billed and cannot be refunded."];
  }
  return [
    ...(hasUsage ? [] : ["It has no usage: it was paid from the store's balance."]),
    ...failedEventIds.map((each) => `Its usage has failed: impact usage explain E${each}`),
    ...(isRefundable ? [`To refund it: impact refund registration ${id} --reason TEXT`] : []),
  ];
};

/** Explains what was sent of a registration's usage. */
export const explainRegistration = async (
  context: CliContext,
  id: string,
  { json }: JsonOption,
): Promise<void> => {
  const { io, connections } = context;
  const db = await connections.database();
  const registration = await findRegistration(db, id);
  if (!registration) {
    throw recordNotFound("registration", id);
  }
  const { accountId, refundedCount } = registration;
  const usage = await readUsage(db, registration);
  const { facts, events } = usage;
  const deployment = await connections.deploymentName();
  // Registrations that were imported or prepaid have no usage facts, so nothing is to be reported or taken back.
  const workflows =
    facts.length === 0
      ? { sender: null, refund: null }
      : {
          sender: usageShardWorkflowId(deployment, shardOf(accountId)),
          refund: refundedCount === 0 ? null : refundWorkflowId(deployment, id),
        };
  const plan = planRegistration(
    registration,
    usage,
    await canBeRefunded(context, registration, usage),
  );
  const fields = {
    registration_id: shownIdOf(registration),
    account_id: accountId,
    account_name: registration.accountName,
    mode: registration.mode,
    kind: registration.kind,
    count: registration.count,
    refunded_count: refundedCount,
    created_at: registration.createdAt,
    billing: usage.state,
  };
  if (json) {
    printJson(io, {
      ...fields,
      facts: facts.map(presentFact),
      meter_events: events.map(presentMeterEvent),
      workflows,
      plan,
    });
    return;
  }
  printFields(io, {
    ...fields,
    sender_workflow: workflows.sender,
    refund_workflow: workflows.refund,
  });
  if (facts.length > 0) {
    io.stdout.write("\n");
    printObjects(io, facts.map(presentFact));
  }
  for (const event of events) {
    io.stdout.write("\n");
    printFields(io, presentMeterEvent(event));
  }
  if (plan.length > 0) {
    printPlan(io, plan);
  }
};
