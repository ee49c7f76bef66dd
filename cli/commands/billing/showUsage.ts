import type { ListedMeterEvent } from "../../../db/billing/meterEventReports.ts";
import type { UsageFact } from "../../../db/billing/usageFacts.ts";
import type { AccountRegistration } from "../../../db/registrations/registrations.ts";
import { findRegistration } from "../../../db/registrations/registrations.ts";
import { isAccepted, outcomeOf } from "../../../domain/batches.ts";
import { isUnfinished } from "../../../domain/billing/meterEvents.ts";
import { shardOf } from "../../../domain/shards.ts";
import { recordNotFound, shownIdOf } from "../../../domain/recordIds.ts";
import { timeOf } from "../../../domain/billing/usage.ts";
import { decideRefund } from "../../../domain/registrations/decideRefund.ts";
import { getRecordId } from "../../../services/getRecordId.ts";
import type { RegistrationUsage } from "../../../services/billing/readUsage.ts";
import { readUsage } from "../../../services/billing/readUsage.ts";
import { findRefundWindow } from "../../../services/registrations/readRefundWindow.ts";
import type { CliContext } from "../../context.ts";
import type { Io } from "../../io.ts";
import { say } from "../../io.ts";
import { formatTime } from "../../output/formatTable.ts";
import { printJson, printRecord, printRows } from "../../output/print.ts";
import type { Columns, JsonOption } from "../../output/print.ts";
import type { RecordOwnerOptions } from "../../accountOptions.ts";
import { presentMeterEvent } from "./presentMeterEvent.ts";
import {
  refundWorkflowId,
  usageSenderWorkflowId,
  usageShardWorkflowId,
} from "../../../workflows/workflowIds.ts";

const presentRegistration = (registration: AccountRegistration) => ({
  registration_id: shownIdOf(registration),
  account_id: registration.accountId,
  account_name: registration.accountName,
  mode: registration.mode,
  kind: registration.kind,
  count: registration.count,
  refunded_count: registration.refundedCount,
  created_at: registration.createdAt,
});

const presentFact = (fact: UsageFact) => ({
  id: fact.id,
  quantity: fact.quantity,
  refund_id: fact.refundId,
  at: timeOf(fact.second),
  meter_event_id: fact.meterEventId,
});

const FACT_COLUMNS: Columns<UsageFact> = {
  fact: ({ id }) => String(id),
  quantity: ({ quantity }) => quantity,
  for: ({ refundId }) => (refundId === null ? "registration" : `refund ${refundId}`),
  "in event": ({ meterEventId }) => (meterEventId === null ? null : String(meterEventId)),
};

const printEvents = (io: Io, events: readonly ListedMeterEvent[]): void => {
  for (const event of events) {
    io.stdout.write("\n");
    printRecord(io, {
      event: String(event.id),
      state: event.state,
      quantity: event.quantity,
      ...(event.alreadyReported === 0 ? {} : { "already reported": event.alreadyReported }),
      identifier: event.identifier,
      processor: event.processor,
      customer: event.customerId,
      attempts: event.attempts,
      "first attempt": event.firstAttemptAt,
      ...(event.retryAt === null ? {} : { "next attempt": event.retryAt }),
      "outcome unknown": event.outcomeUnknown,
      ...(event.inDoubtSince === null ? {} : { "in doubt since": event.inDoubtSince }),
      "last error": event.lastError,
      sealed: event.sealedAt,
      settled: event.settledAt,
      ...(event.settlementReference === null
        ? {}
        : {
            "settled by hand": `${event.settlementKind?.replace("_", " ")} ${event.settlementReference}`,
          }),
    });
  }
};

/** Whether the stream's own sender sends an event. */
const hasOwnSender = (events: readonly ListedMeterEvent[]): boolean =>
  events.some((event) => isUnfinished(event.state) && event.hasOwnSender);

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
  const window = await findRefundWindow({ db, clock, billing }, registration);
  const hasUsage = facts.length > 0;
  return (
    window === null ||
    isAccepted(
      outcomeOf(() => decideRefund({ ...registration, hasUsage }, null, window, clock.now())),
    )
  );
};

const advise = (
  io: Io,
  registration: AccountRegistration,
  { status, failedEventIds }: RegistrationUsage,
  isRefundable: boolean,
): void => {
  if (status === "imported") {
    say(io, "It has no usage: it was imported, so it is not billed and cannot be refunded.");
    return;
  }
  if (status === "prepaid") {
    say(io, "It has no usage: it was paid from the store's balance.");
  }
  if (isRefundable) {
    say(io, `To refund it, run: impact refund registration ${registration.id} --reason TEXT`);
  }
  for (const eventId of failedEventIds) {
    say(io, `Event ${eventId} failed. Fix the cause, then run: impact usage retry ${eventId}`);
  }
};

export type ShowUsageOptions = RecordOwnerOptions & JsonOption;

export const showUsage = async (
  context: CliContext,
  given: string,
  { org, json }: ShowUsageOptions,
): Promise<void> => {
  const { io, connections } = context;
  const db = await connections.database();
  const id = await getRecordId(db, "registration", given, org ?? null);
  const registration = await findRegistration(db, id);
  if (!registration) {
    throw recordNotFound("registration", given);
  }
  const { accountId, mode, kind, refundedCount } = registration;
  const stream = { accountId, mode, kind };
  const usage = await readUsage(db, registration);
  const { facts, events, folded } = usage;
  const deployment = await connections.deploymentName();
  const senderId = hasOwnSender(events)
    ? usageSenderWorkflowId(deployment, stream)
    : usageShardWorkflowId(deployment, shardOf(accountId));
  // Registrations that were imported, prepaid or folded have no usage facts, so nothing is to be reported or taken back.
  const workflows =
    facts.length === 0
      ? { sender: null, refund: null }
      : {
          sender: senderId,
          refund: refundedCount === 0 ? null : refundWorkflowId(deployment, id),
        };
  if (json) {
    printJson(io, {
      ...presentRegistration(registration),
      billing: usage.status,
      folded:
        folded === null
          ? null
          : {
              hour: timeOf(folded.hour),
              processor: folded.processor,
              customer_id: folded.customerId,
              folded_at: folded.foldedAt,
            },
      facts: facts.map(presentFact),
      meter_events: events.map(presentMeterEvent),
      workflows,
    });
    return;
  }
  printRecord(io, {
    registration: shownIdOf(registration),
    [registration.accountType]: `${registration.accountName} (${accountId})`,
    mode,
    kind,
    count: registration.count,
    refunded: refundedCount,
    created: registration.createdAt,
    billing: usage.status,
    ...(folded === null
      ? {}
      : {
          "folded into": `the hour from ${formatTime(timeOf(folded.hour))}`,
          processor: folded.processor,
          customer: folded.customerId,
        }),
    "sender workflow": workflows.sender,
    "refund workflow": workflows.refund,
  });
  if (facts.length > 0) {
    io.stdout.write("\n");
    printRows(io, facts, FACT_COLUMNS);
  }
  printEvents(io, events);
  advise(io, registration, usage, await canBeRefunded(context, registration, usage));
};
