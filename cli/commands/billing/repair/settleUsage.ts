import type { Context } from "../../../context.ts";
import { CommandError, EXIT } from "../../../exitCodes.ts";
import { settleEvent } from "./settleEvent.ts";
import type { SettleOptions } from "./settleEvent.ts";
import { settleAfterFailover } from "./settleFailover.ts";
import type { SettleFailoverOptions } from "./settleFailover.ts";

export type SettleCommandOptions = Omit<SettleOptions, "reason"> &
  Omit<SettleFailoverOptions, "restoredAt"> & { readonly restoredAt?: Date };

/** Settles one meter event by hand, or what a failover has lost. */
export const settleUsage = async (
  context: Context,
  meterEventId: bigint | undefined,
  { restoredAt, ...options }: SettleCommandOptions,
): Promise<void> => {
  if ((meterEventId === undefined) === (restoredAt === undefined)) {
    throw new CommandError(EXIT.usage, "Give the id of a meter event, or --restored-at.");
  }
  if (restoredAt !== undefined) {
    await settleAfterFailover(context, { ...options, restoredAt });
    return;
  }
  const { org, includeLostRefunds, dryRun, reason, ...settlement } = options;
  if (org !== undefined || includeLostRefunds || dryRun) {
    throw new CommandError(
      EXIT.usage,
      "--org, --include-lost-refunds and --dry-run need --restored-at.",
    );
  }
  if (reason === undefined) {
    throw new CommandError(EXIT.usage, "Pass --reason; it is recorded with the event.");
  }
  if (meterEventId !== undefined) {
    await settleEvent(context, meterEventId, { ...settlement, reason });
  }
};
