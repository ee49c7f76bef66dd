import { counted } from "../../../../domain/counted.ts";
import { settleUsage } from "../../../../services/billing/repair/settleUsage.ts";
import type { CliContext } from "../../../context.ts";
import { CommandError, EXIT } from "../../../exitCodes.ts";
import { say } from "../../../io.ts";
import { openChange } from "../../../operator.ts";
import type { ReasonedOptions } from "../../../operator.ts";
import { printJson } from "../../../output/print.ts";
import type { DocumentOptions } from "./readDocument.ts";
import { readDocument } from "./readDocument.ts";

export type SettleOptions = DocumentOptions & ReasonedOptions & { readonly units?: number };

export const settleEvent = async (
  context: CliContext,
  meterEventId: bigint,
  options: SettleOptions,
): Promise<void> => {
  const { io } = context;
  const settlement = readDocument(options);
  if (settlement === null) {
    throw new CommandError(EXIT.usage, "Say how it was settled: --invoice-item or --credit-note.");
  }
  const { quantity, replayed } = await settleUsage(
    await openChange(context, options),
    meterEventId,
    settlement,
    { reason: options.reason, expectedUnits: options.units ?? null },
  );
  const units = counted(quantity, "unit");
  if (options.json) {
    printJson(io, {
      meter_event_id: Number(meterEventId),
      settlement: settlement.kind,
      reference: settlement.reference,
      quantity,
      replayed,
    });
  }
  say(
    io,
    replayed
      ? `Event ${meterEventId} (${units}) was already settled with ${settlement.reference}.`
      : `Settled ${units} of event ${meterEventId} with ${settlement.reference}. Its usage is never sent again.`,
  );
};
