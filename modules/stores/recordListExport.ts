import type { AccountMode } from "../records/owner.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";

/**
 * Records the export of a store's list, which names customers. Call it before the first row is read: an entry
 * may name an export that failed, but no export lacks an entry.
 */
export const recordListExport = (
  { db, clock, actor }: OperatorContext,
  { accountId, mode }: AccountMode,
  {
    list,
    from,
    until,
  }: { readonly list: string; readonly from?: Date | undefined; readonly until?: Date | undefined },
): Promise<void> =>
  recordAction(db, actor, clock.now(), {
    action: "export",
    accountId,
    details: {
      list,
      mode,
      ...(from === undefined ? {} : { from: from.toISOString() }),
      ...(until === undefined ? {} : { until: until.toISOString() }),
    },
  });
