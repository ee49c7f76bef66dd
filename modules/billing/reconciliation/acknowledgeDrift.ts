import type { DatabaseTransactionConnection } from "slonik";
import { lockDeployment } from "../deployment.sql.ts";
import type { AcknowledgedDrift } from "./acknowledgedDrift.sql.ts";
import { customerOf, saveAcknowledgedDrift } from "./acknowledgedDrift.sql.ts";
import { findReconciliationDifference } from "./reconciliations.sql.ts";
import type { FoundDifference } from "./reconciliations.sql.ts";
import { readMinuteUsage } from "./minuteUsage.sql.ts";
import type { MinuteUsage } from "./minuteUsage.sql.ts";
import { lockStreams } from "../streams.sql.ts";
import { requireFlowing } from "../deployment.rules.ts";
import { namedEvents } from "../meterEvents.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import { DomainError, invalidRequest } from "../../../runtime/errors.rules.ts";
import { LONGEST_USAGE_LAG_MS } from "../processor.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { lockComparedMinutes, findOpenUsage } from "./requireUnchanged.ts";

/**
 * Locks the usage of a difference until the transaction ends. Checks that the difference is still the same and contains no
 * lag, and that none of it can be usage that the processor has and that does not count as delivered: later checks count
 * acknowledged units as explained, and would send that usage again. So would a replaced acknowledgement that no longer
 * explains usage which has failed since.
 * @throws DomainError request_invalid
 */
const requireSettled = async (
  transaction: DatabaseTransactionConnection,
  { billedBy, ...difference }: FoundDifference,
): Promise<MinuteUsage> => {
  requireFlowing(await lockDeployment(transaction), "repeat the command when the hold has ended");
  await lockStreams(transaction, difference, difference.accountIds);
  const minute = minuteOf(difference.minute);
  const stream = { ...difference, processor: billedBy };
  await lockComparedMinutes(transaction, [{ stream, minute }]);
  const usage = await readMinuteUsage(transaction, stream, minute);
  if (usage.failedSinceIds.length > 0) {
    throw invalidRequest(
      `usage of that minute has failed since its drift was acknowledged; run \`impact usage retry\` of ${namedEvents(usage.failedSinceIds)} first, and then run \`impact usage reconcile\` again`,
    );
  }
  if (usage.isPending) {
    throw invalidRequest(
      "usage of that minute is pending; wait until it is sent, and run `impact usage reconcile` again",
    );
  }
  const open = await findOpenUsage(transaction, stream, minute);
  if (open.length > 0) {
    throw invalidRequest(
      `the processor may have ${namedEvents(open.map(({ id }) => String(id)))}, which may explain the difference; retry, with \`--assume\` if the result is unclear, or settle what was billed by hand or must never be billed; then run \`impact usage reconcile\` again`,
    );
  }
  if (usage.delivered !== difference.ours) {
    throw invalidRequest(
      "usage of that minute has changed since that reconciliation; run `impact usage reconcile` again",
    );
  }
  // Units that appear later would explain usage that a retry sends, so that it would not be sent.
  const shownUntil = new Date(difference.startedAt.getTime() - LONGEST_USAGE_LAG_MS);
  if (difference.mayLag || (usage.lastDeliveredAt !== null && usage.lastDeliveredAt > shownUntil)) {
    throw invalidRequest(
      "usage of that minute was being sent, or was delivered less than 15 minutes before that reconciliation, so the processor's sum may have lagged; run `impact usage reconcile` again 15 minutes after the delivery",
    );
  }
  return usage;
};

/**
 * Acknowledges a stored difference of a minute, so that it is reported again only if it changes. It can be repeated.
 * @throws DomainError record_not_found if there is no such difference; request_invalid if usage of its minute is not settled,
 * has changed or was delivered just before, a later difference of it was acknowledged, or usage is held
 */
export const acknowledgeDrift = async (
  { db, clock, actor }: OperatorContext,
  differenceId: bigint,
  { reason, operator }: { readonly reason: string; readonly operator: string },
): Promise<AcknowledgedDrift> => {
  const difference = await findReconciliationDifference(db, differenceId);
  if (!difference) {
    throw new DomainError(
      "record_not_found",
      `difference ${differenceId} not found; see \`impact usage show-reconciliation\``,
    );
  }
  const { billedBy, mode, kind, minute, ours, processor } = difference;
  const acknowledged: AcknowledgedDrift = {
    processor: billedBy,
    mode,
    kind,
    customer: customerOf(difference),
    minute,
    units: processor - ours,
  };
  return db.transaction(async (transaction) => {
    const { deliveredEventIds } = await requireSettled(transaction, difference);
    const now = clock.now();
    const note = {
      deliveredEventIds,
      reason,
      operator,
      comparedAt: difference.startedAt,
      now,
    };
    if (!(await saveAcknowledgedDrift(transaction, acknowledged, note))) {
      throw invalidRequest(
        "another difference of that minute was acknowledged since that reconciliation; run `impact usage reconcile` again",
      );
    }
    // All of them, because checks of their usage depend on it.
    for (const accountId of difference.accountIds) {
      await recordAction(transaction, actor, now, {
        action: "usage.acknowledge_drift",
        accountId,
        subject: String(differenceId),
        details: acknowledged,
      });
    }
    return acknowledged;
  });
};
