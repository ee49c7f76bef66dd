import type { ListedMeterEvent } from "../../../db/billing/meterEventReports.ts";
import { listSealingsOfSecond } from "../../../db/billing/meterEventReports.ts";
import type { UsageFact } from "../../../db/billing/usageFacts.ts";
import { listFactsOfRegistration } from "../../../db/billing/usageFacts.ts";
import type { AccountRegistration } from "../../../db/registrations/registrations.ts";
import { findRegistration } from "../../../db/registrations/registrations.ts";
import { refundIdOf } from "../../../domain/registrations/decideRefund.ts";
import { isFailed } from "../../../domain/billing/meterEvents.ts";
import { secondOf } from "../../../domain/billing/usage.ts";
import { usageSenderWorkflowId } from "../../../workflows/usageSender.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import type { Io } from "../../io.ts";
import { say } from "../../io.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";
import { timeOf, presentEvent } from "./presentEvent.ts";

const presentRegistration = (registration: AccountRegistration) => ({
  registration_id: registration.id,
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

const printFacts = (io: Io, facts: readonly UsageFact[]): void => {
  printTable(
    io,
    ["fact", "quantity", "for", "in event"],
    facts.map(({ id, quantity, refundId, meterEventId }) => [
      String(id),
      quantity,
      refundId === null ? "registration" : `refund ${refundId}`,
      meterEventId === null ? null : String(meterEventId),
    ]),
  );
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
      "outcome unknown": event.outcomeUnknown,
      ...(event.inDoubtSince === null ? {} : { "in doubt since": event.inDoubtSince }),
      "last error": event.lastError,
      sealed: event.sealedAt,
      settled: event.settledAt,
    });
  }
};

const advise = (io: Io, facts: readonly UsageFact[], events: readonly ListedMeterEvent[]): void => {
  if (facts.length === 0) {
    say(io, "It has no usage: it was imported, so it is not billed and cannot be refunded.");
  }
  const failed = events.filter(
    ({ id, state }) =>
      isFailed(state) && facts.some(({ meterEventId }) => meterEventId === Number(id)),
  );
  for (const { id } of failed) {
    say(io, `Event ${id} failed. Fix the cause, then run: impact usage retry ${id}`);
  }
};

export const showUsage = async (
  { io, connections }: Context,
  id: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const db = await connections.database();
  const registration = await findRegistration(db, id);
  if (!registration) {
    throw new CommandError(EXIT.notFound, `There is no registration ${id}.`);
  }
  const { accountId, mode, kind: meter, refundedCount, createdAt } = registration;
  const stream = { accountId, mode, meter };
  const facts = await listFactsOfRegistration(db, id);
  const events =
    facts.length === 0 ? [] : await listSealingsOfSecond(db, stream, secondOf(createdAt));
  const workflows = {
    sender: facts.length === 0 ? null : usageSenderWorkflowId(stream),
    refund: refundedCount === 0 ? null : refundIdOf(id),
  };
  if (json) {
    printJson(io, {
      ...presentRegistration(registration),
      facts: facts.map(presentFact),
      meter_events: events.map(presentEvent),
      workflows,
    });
    return;
  }
  printRecord(io, {
    registration: id,
    organization: `${registration.accountName} (${accountId})`,
    mode,
    kind: meter,
    count: registration.count,
    refunded: refundedCount,
    created: createdAt,
    "sender workflow": workflows.sender,
    "refund workflow": workflows.refund,
  });
  if (facts.length > 0) {
    io.stdout.write("\n");
    printFacts(io, facts);
  }
  printEvents(io, events);
  advise(io, facts, events);
};
