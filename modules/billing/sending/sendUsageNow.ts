import { ownerKey } from "../../records/owner.rules.ts";
import { endDelays } from "./attempts.sql.ts";
import { listWaitingStreams } from "./waitingStreams.sql.ts";
import type { WaitingStream } from "./waitingStreams.sql.ts";
import { getOrganization } from "../../accounts/getAccount.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { OperatorContext } from "../../accounts/context.ts";

/** Streams with pending usage, and the keys of those whose next attempt was delayed until now. */
export type HurriedUsage = {
  readonly streams: readonly WaitingStream[];
  readonly delayedKeys: ReadonlySet<string>;
};

/**
 * Ends the delays of pending usage, so that the senders of the shards attempt it within seconds. That is one statement
 * however many streams wait.
 * @param accountId null: of all organizations
 * @throws DomainError record_not_found if there is no such organization
 */
export const sendUsageNow = (
  { db, clock, actor }: OperatorContext,
  accountId: string | null,
): Promise<HurriedUsage> =>
  db.transaction(async (transaction) => {
    if (accountId !== null) {
      await getOrganization(transaction, accountId);
    }
    const now = clock.now();
    const delayedKeys = new Set((await endDelays(transaction, accountId, now)).map(ownerKey));
    const streams = (await listWaitingStreams(transaction)).filter(
      (stream) => accountId === null || stream.accountId === accountId,
    );
    if (streams.length > 0) {
      const details = { streams: streams.length, delayed: delayedKeys.size };
      await recordAction(transaction, actor, now, { action: "usage.send_now", accountId, details });
    }
    return { streams, delayedKeys };
  });
