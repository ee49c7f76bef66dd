import { settleAfterRestore } from "../../../../services/billing/reconciliation/settleAfterRestore.ts";
import type { Context } from "../../../context.ts";
import { CommandError, EXIT } from "../../../exitCodes.ts";
import { say } from "../../../io.ts";
import { operatorName } from "../../../operator.ts";
import { printJson, printTable } from "../../../output/print.ts";
import { timeOf } from "../presentEvent.ts";

export type AfterRestoreOptions = { readonly as?: string; readonly json?: true };

/** One call to the processor for each event in doubt. */
const TIMEOUT_MS = 60 * 60 * 1000;

export const reconcileAfterRestore = async (
  { io, connections, clock }: Context,
  { as, json }: AfterRestoreOptions,
): Promise<void> => {
  const settled = await settleAfterRestore(
    { db: await connections.database(), clock, billing: await connections.billing() },
    operatorName(as),
    AbortSignal.timeout(TIMEOUT_MS),
  );
  if (json) {
    printJson(
      io,
      settled.map(({ event, result, processorQuantity, reason }) => ({
        meter_event_id: Number(event.id),
        account_id: event.accountId,
        meter: event.meter,
        at: timeOf(event.second),
        quantity: event.quantity,
        processor_quantity: processorQuantity,
        result,
        reason,
      })),
    );
  } else if (settled.length > 0) {
    printTable(
      io,
      ["event", "account", "meter", "at", "quantity", "at processor", "result", "reason"],
      settled.map(({ event, result, processorQuantity, reason }) => [
        String(event.id),
        event.accountId,
        event.meter,
        timeOf(event.second),
        event.quantity,
        processorQuantity,
        result,
        reason,
      ]),
    );
  }
  say(
    io,
    `Settled ${settled.length} event(s) in doubt, and ended the hold. The workers send what the processor lacks.`,
  );
  const unclear = settled.filter(({ result }) => result === "unclear").length;
  if (unclear > 0) {
    throw new CommandError(
      EXIT.failed,
      `${unclear} event(s) stay blocked; see \`impact usage list --state failed\`.`,
    );
  }
};
