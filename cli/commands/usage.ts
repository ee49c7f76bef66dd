import { Option } from "commander";
import type { Command } from "commander";
import { listMeterEvents } from "../../modules/billing/meterEventReports.sql.ts";
import type { ListedMeterEvent } from "../../modules/billing/meterEventReports.sql.ts";
import { listUnnamedRejections } from "../../modules/billing/processorEvents/processorEvents.sql.ts";
import { listUnsealedUsage } from "../../modules/billing/usageFacts.sql.ts";
import type { UnsealedUsage, UsageFact } from "../../modules/billing/usageFacts.sql.ts";
import { findRegistration } from "../../modules/registrations/registrations.sql.ts";
import type { AccountRegistration } from "../../modules/registrations/registrations.sql.ts";
import { isAccepted, outcomeOf } from "../../modules/records/batches.rules.ts";
import { USAGE_STATES } from "../../modules/billing/meterEvents.rules.ts";
import type { UsageState } from "../../modules/billing/meterEvents.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { recordNotFound, shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { decideRefund } from "../../modules/registrations/decideRefund.rules.ts";
import { shardOf } from "../../db/shards.rules.ts";
import { readUsage } from "../../modules/billing/readUsage.ts";
import type { RegistrationUsage } from "../../modules/billing/readUsage.ts";
import { defaultSpan } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import { getRecordId } from "../../modules/records/getRecordId.ts";
import { findRefundWindows } from "../../modules/registrations/readRefundWindow.ts";
import { refundWorkflowId, usageShardWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { readAccountFilter, recordOwnerOption } from "../accountOptions.ts";
import type { RecordOwnerOptions } from "../accountOptions.ts";
import { parseId, parseLimit, parseRecordId } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { printJson, printList, printRecord, printRows, sayIfMore } from "../output/print.ts";
import type { Columns, JsonOption } from "../output/print.ts";
import { sayUnnamedRejections } from "./reconciliationReport.ts";
import { addCompareAndReleaseCommand, addHoldCommand, addReleaseCommand } from "./usageHold.ts";
import {
  addAcknowledgeDriftCommand,
  addReconcileCommand,
  addShowReconciliationCommand,
} from "./usageReconciliation.ts";
import { sayIfHeld } from "./usageResults.ts";
import { addReopenCommand, addRetryCommand, addSendNowCommand } from "./usageRetries.ts";
import { addCorrectCommand, addSettleCommand, addWaiveCommand } from "./usageSettlements.ts";

/** Returns a meter event as `--json` prints it. */
const presentMeterEvent = (event: ListedMeterEvent) => ({
  meter_event_id: Number(event.id),
  state: event.state,
  account_id: event.accountId,
  account_name: event.accountName,
  mode: event.mode,
  meter: event.kind,
  at: timeOf(event.second),
  quantity: event.quantity,
  already_reported: event.alreadyReported,
  identifier: event.identifier,
  processor: event.processor,
  customer_id: event.customerId,
  attempts: event.attempts,
  first_attempt_at: event.firstAttemptAt,
  next_attempt_at: event.retryAt,
  outcome_unknown: event.outcomeUnknown,
  in_doubt_since: event.inDoubtSince,
  last_error: event.lastError,
  sealed_at: event.sealedAt,
  settled_at: event.settledAt,
  settlement: event.settlementKind,
  settlement_reference: event.settlementReference,
});

type ListOptions = {
  readonly state?: UsageState;
  readonly org?: string;
  readonly limit: number;
  readonly json?: true;
};

const presentUnsealed = (unsealed: UnsealedUsage) => ({
  meter_event_id: null,
  state: "unsealed",
  account_id: unsealed.accountId,
  account_name: unsealed.accountName,
  mode: unsealed.mode,
  meter: unsealed.kind,
  at: timeOf(unsealed.oldestSecond),
  quantity: unsealed.quantity,
  facts: unsealed.facts,
});

const UNNAMED_SHOWN = 5;

const addListCommand = (parent: Command, { io, connections, clock }: CliContext): void => {
  parent
    .command("list")
    .description("List meter events, latest first, and usage that is not sealed yet")
    .addOption(
      new Option(
        "--state <state>",
        "state of the events; pending: unsealed, sealed or sending; failed: rejected, expired or blocked; late: delivered after the billing period ended; held: refunds of usage that the processor does not have; uncredited: those of usage that was settled by hand or waived",
      ).choices(USAGE_STATES),
    )
    .option("--org <id>", "id of the organization", parseId)
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action(async ({ state, org, limit, json }: ListOptions) => {
      const db = await connections.database();
      const accountId = await readAccountFilter(db, org);
      const unsealed =
        state === undefined || state === "pending"
          ? await listUnsealedUsage(db, { accountId, limit: limit + 1 })
          : [];
      const events = await listMeterEvents(db, {
        state: state ?? null,
        accountId,
        limit: limit + 1,
      });
      const rows = [...unsealed.map(presentUnsealed), ...events.map(presentMeterEvent)];
      printList({ io, json }, rows.slice(0, limit), (row) => row, {
        event: (row) => (row.meter_event_id === null ? null : String(row.meter_event_id)),
        state: (row) => row.state,
        organization: (row) => row.account_name,
        mode: (row) => row.mode,
        meter: (row) => row.meter,
        at: (row) => row.at,
        quantity: (row) => row.quantity,
        attempts: (row) => ("attempts" in row ? row.attempts : 0),
        "last error": (row) => ("last_error" in row ? row.last_error : null),
      });
      await sayIfHeld(io, db);
      sayIfMore(io, unsealed.length + events.length, limit);
      if (state === undefined || state === "failed") {
        const { start } = defaultSpan(clock.now());
        sayUnnamedRejections(io, await listUnnamedRejections(db, timeOf(start), UNNAMED_SHOWN));
      }
    });
};

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

type ShowUsageOptions = RecordOwnerOptions & JsonOption;

const showUsage = async (
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
  if (json) {
    printJson(io, {
      ...presentRegistration(registration),
      billing: usage.status,
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

const addShowCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("show")
    .description("Show the usage of a registration and its meter events")
    .argument("<registration-id>", "id of the registration", parseRecordId)
    .addOption(recordOwnerOption())
    .action((id: string, options: ShowUsageOptions) => showUsage(context, id, options));
};

export const addUsageCommands = (usage: Command, context: CliContext): void => {
  addListCommand(usage, context);
  addShowCommand(usage, context);
  addRetryCommand(usage, context);
  addSendNowCommand(usage, context);
  addWaiveCommand(usage, context);
  addSettleCommand(usage, context);
  addCorrectCommand(usage, context);
  addReopenCommand(usage, context);
  addReconcileCommand(usage, context);
  addShowReconciliationCommand(usage, context);
  addCompareAndReleaseCommand(usage, context);
  addAcknowledgeDriftCommand(usage, context);
  addHoldCommand(usage, context);
  addReleaseCommand(usage, context);
};
