import { readUsage } from "../../modules/billing/readUsage.ts";
import type { RegistrationUsage } from "../../modules/billing/readUsage.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import type { UsageFact } from "../../modules/billing/usageFacts.sql.ts";
import { recordNotFound, shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { findRegistration } from "../../modules/registrations/registrations.sql.ts";
import type { AccountRegistration } from "../../modules/registrations/registrations.sql.ts";
import { inDeployment, refundWorkflowId } from "../../runtime/temporalNames.rules.ts";
import type { CliContext } from "../context.ts";
import { printFields, printJson, printObjects } from "../output/print.ts";
import { presentMeterEvent, printPlan } from "../output/printUsage.ts";

const presentFact = ({ id, quantity, refundId, second, meterEventId }: UsageFact) => ({
  fact: String(id),
  quantity,
  refund_id: refundId,
  at: timeOf(second),
  item: meterEventId === null ? null : `E${meterEventId}`,
});

const planRegistration = (
  { isPrepaid }: AccountRegistration,
  { facts, failedEventIds }: RegistrationUsage,
): readonly string[] => {
  if (facts.length > 0) {
    return failedEventIds.map((id) => `Its usage has failed: impact usage explain E${id}`);
  }
  return [
    isPrepaid
      ? "It has no usage: it was paid from the store's balance."
      : "It has no usage: it was imported, so it is not billed and cannot be refunded.",
  ];
};

/** Explains what was sent of a registration's usage. */
export const explainRegistration = async (
  { io, connections }: CliContext,
  id: string,
): Promise<void> => {
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
          sender: inDeployment(deployment, "usage-sender"),
          refund: refundedCount === 0 ? null : refundWorkflowId(deployment, id),
        };
  const plan = planRegistration(registration, usage);
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
  if (io.json) {
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
