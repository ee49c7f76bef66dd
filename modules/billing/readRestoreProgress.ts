import type { Context } from "../../runtime/context.ts";
import { findHold } from "./deployment.rules.ts";
import { readDeployment } from "./deployment.sql.ts";
import { countAskedEvents } from "./meterEvents.sql.ts";
import { LONGEST_USAGE_LAG_MS } from "./processor.ts";
import { findLastReconciliation } from "./reconciliation/reconciliations.sql.ts";
import { needsOperator } from "./usageAttention.rules.ts";
import { countUsageAttention } from "./usageAttention.sql.ts";
import { countUnsealedFacts } from "./usageFacts.sql.ts";

/** What a restore, a promotion or a copy has left to do. */
export type RestoreProgress = {
  /** When it was noticed: usage that is registered until then may have been sent in the history that was lost. */
  readonly noticedAt: Date;
  readonly isHeld: boolean;
  /** Who ended the last hold, and when; null if none has ended. */
  readonly released: { readonly by: string; readonly at: Date } | null;
  /** The events about which Stripe is asked, and the facts of which no event is sealed yet. */
  readonly asked: { readonly events: number; readonly unsealedFacts: number };
  /** When the sums show everything that was sent before: Stripe is asked, and a comparison is complete, from then on. */
  readonly sumsCompleteAt: Date;
  /** When the last comparison started that covers everything; null if none has. */
  readonly comparedAt: Date | null;
  /** The items that need an operator. */
  readonly openItems: number;
};

/** Returns how far the work after the last restore has come; null if there was none, or nothing was lost in it. */
export const readRestoreProgress = async ({
  db,
}: Pick<Context, "db">): Promise<RestoreProgress | null> => {
  const deployment = await readDeployment(db);
  const { doubtedUntil, doubtedFactId, releasedAt, releasedBy } = deployment;
  if (doubtedUntil === null || deployment.processor?.name === "ledger") {
    return null;
  }
  const sumsCompleteAt = new Date(doubtedUntil.getTime() + LONGEST_USAGE_LAG_MS);
  const last = await findLastReconciliation(db);
  const attention = await countUsageAttention(db);
  return {
    noticedAt: doubtedUntil,
    isHeld: findHold(deployment) !== null,
    released: releasedAt && releasedBy !== null ? { by: releasedBy, at: releasedAt } : null,
    asked: {
      events: await countAskedEvents(db),
      unsealedFacts: await countUnsealedFacts(db, doubtedFactId ?? 0),
    },
    sumsCompleteAt,
    comparedAt:
      last !== null &&
      last.endedAt !== null &&
      last.error === null &&
      last.startedAt >= sumsCompleteAt
        ? last.startedAt
        : null,
    openItems: attention
      .filter(({ cause }) => needsOperator(cause))
      .reduce((sum, { items }) => sum + items, 0),
  };
};
