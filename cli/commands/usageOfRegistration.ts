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
import { printJson, printRecord, printRows } from "../output/print.ts";
import type { Columns, JsonOption } from "../output/print.ts";
import { presentMeterEvent, printEvent, printPlan } from "../output/printUsage.ts";

const presentFact = (fact: UsageFact) => ({
  id: fact.id,
  quantity: fact.quantity,
  refund_id: fact.refundId,
  at: timeOf(fact.second),
  item: fact.meterEventId === null ? null : `E${fact.meterEventId}`,
});

const FACT_COLUMNS: Columns<UsageFact> = {
  fact: ({ id }) => String(id),
  quantity: ({ quantity }) => quantity,
  for: ({ refundId }) => (refundId === null ? "registration" : `refund ${refundId}`),
  "in event": ({ meterEventId }) => (meterEventId === null ? null : `E${meterEventId}`),
};

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
  registration: AccountRegistration,
  { status, failedEventIds }: RegistrationUsage,
  isRefundable: boolean,
): readonly string[] => {
  if (status === "imported") {
    return ["It has no usage: it was imported, so it is not billed and cannot be refunded."];
  }
  return [
    ...(status === "prepaid" ? ["It has no usage: it was paid from the store's balance."] : []),
    ...failedEventIds.map((id) => `Its usage has failed: impact usage explain E${id}`),
    ...(isRefundable
      ? [`To refund it: impact refund registration ${registration.id} --reason TEXT`]
      : []),
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
  if (json) {
    printJson(io, {
      registration_id: shownIdOf(registration),
      account_id: accountId,
      account_name: registration.accountName,
      mode: registration.mode,
      kind: registration.kind,
      count: registration.count,
      refunded_count: refundedCount,
      created_at: registration.createdAt,
      billing: usage.status,
      facts: facts.map(presentFact),
      meter_events: events.map(presentMeterEvent),
      workflows,
      plan,
    });
    return;
  }
  printRecord(io, {
    registration: shownIdOf(registration),
    [registration.accountType]: `${registration.accountName} (${accountId})`,
    mode: registration.mode,
    kind: registration.kind,
    count: registration.count,
    refunded: refundedCount,
    created: registration.createdAt,
    billing: usage.status,
    "sender workflow": workflows.sender,
    "refund workflow": workflows.refund,
  });
  if (facts.length > 0) {
    io.stdout.write("\n");
    printRows(io, facts, FACT_COLUMNS);
  }
  for (const event of events) {
    io.stdout.write("\n");
    printEvent(io, event);
  }
  if (plan.length > 0) {
    printPlan(io, plan);
  }
};
