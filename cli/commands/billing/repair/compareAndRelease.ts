import { countLateMeterEvents } from "../../../../db/billing/meterEventReports.ts";
import { counted } from "../../../../domain/counted.ts";
import { HOUR_MS } from "../../../../domain/durations.ts";
import { timeOf } from "../../../../domain/billing/usage.ts";
import {
  processorQuantityOf,
  settleAfterRestore,
} from "../../../../services/billing/reconciliation/settleAfterRestore.ts";
import type { CliContext } from "../../../context.ts";
import { CommandError, EXIT } from "../../../exitCodes.ts";
import { say } from "../../../io.ts";
import { operatorName, openBillingChange } from "../../../operator.ts";
import type { OperatorOptions } from "../../../operator.ts";
import { printJson, printRows } from "../../../output/print.ts";
import { warnOfEndedPeriods } from "./warnOfEndedPeriods.ts";

export type CompareAndReleaseOptions = Pick<OperatorOptions, "as"> & {
  readonly since?: Date;
  readonly dryRun?: true;
  readonly json?: true;
};

/** One call to the processor for each customer, kind and minute in doubt. */
const TIMEOUT_MS = HOUR_MS;

export const compareAndRelease = async (
  context: CliContext,
  { as, since, dryRun, json }: CompareAndReleaseOptions,
): Promise<void> => {
  const { io } = context;
  const settled = await settleAfterRestore(
    await openBillingChange(context, { as }),
    { operator: operatorName(as), since: since ?? null, isDryRun: dryRun === true },
    AbortSignal.timeout(TIMEOUT_MS),
  );
  if (json) {
    printJson(
      io,
      settled.map(({ event, outcome }) => ({
        // The events of a dry run do not stay.
        meter_event_id: dryRun ? null : Number(event.id),
        account_id: event.accountId,
        meter: event.kind,
        at: timeOf(event.second),
        quantity: event.quantity,
        processor_quantity: processorQuantityOf({ event, outcome }),
        result: outcome.kind,
        reason: "reason" in outcome ? outcome.reason : null,
      })),
    );
  } else if (settled.length > 0) {
    printRows(io, settled, {
      event: ({ event }) => (dryRun ? null : String(event.id)),
      account: ({ event }) => event.accountId,
      meter: ({ event }) => event.kind,
      at: ({ event }) => timeOf(event.second),
      quantity: ({ event }) => event.quantity,
      "at processor": processorQuantityOf,
      result: ({ outcome }) => outcome.kind,
      reason: ({ outcome }) => ("reason" in outcome ? outcome.reason : null),
    });
  }
  const unclear = settled.filter(({ outcome }) => outcome.kind === "unclear").length;
  if (dryRun) {
    say(
      io,
      `${counted(settled.length, "event is", "events are")} in doubt, and the processor's sums settle ${settled.length - unclear} of them. Nothing was changed; usage stays held.`,
    );
    return;
  }
  await warnOfEndedPeriods(
    context,
    settled.filter(({ outcome }) => outcome.kind !== "delivered").map(({ event }) => event.id),
  );
  const late = await countLateMeterEvents(await context.connections.database());
  if (late > 0) {
    say(
      io,
      `${counted(late, "delivered event")} may not be on any invoice; see \`impact usage list --state late\`.`,
    );
  }
  say(
    io,
    `Settled ${counted(settled.length - unclear, "event")} in doubt, and ended the hold. The workers send what the processor lacks.`,
  );
  if (unclear > 0) {
    throw new CommandError(
      EXIT.failed,
      `${counted(unclear, "event stays", "events stay")} blocked; see \`impact usage list --state failed\`.`,
    );
  }
};
