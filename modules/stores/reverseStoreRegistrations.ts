import type { DatabaseTransactionConnection } from "slonik";
import { positionOf } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { subtractFromTotals } from "../registrations/totals.sql.ts";
import { insertBalanceEntry } from "./balances.sql.ts";
import type { ReversibleRecord } from "./storeRegistrations.sql.ts";
import { insertReversals, lockReversible } from "./storeRegistrations.sql.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { Kind, Owner } from "../records/owner.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { changedBalance } from "./stores.rules.ts";
import type { ImpactFilter } from "./customers.rules.ts";
import type { StoreResponse, StoreWrite } from "./storeWrites.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";
import type { StoreContext } from "./context.ts";
import { runIdempotentWrite } from "./runIdempotentWrite.ts";
import { newId } from "../../runtime/newId.ts";
import { tooFewLeft } from "./tooFewLeft.ts";

const PAGE_RECORDS = 500;
/** Limits the size of the transaction; larger reversals need several calls. */
export const MAXIMUM_RECORDS = 10_000;

type Reversal = { readonly record: ReversibleRecord; readonly count: number };

/** Locks the newest `quantity` units and returns the records that they belong to. */
const selectNewestUnits = async (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  filter: ImpactFilter,
  quantity: number,
): Promise<readonly Reversal[]> => {
  const selected: Reversal[] = [];
  let missing = quantity;
  let after: ListPosition | null = null;
  while (missing > 0) {
    if (selected.length >= MAXIMUM_RECORDS) {
      throw invalidRequest(
        `quantity: one call can reverse units of at most ${MAXIMUM_RECORDS} records; reverse at most ${quantity - missing} units in this call and the rest in others`,
      );
    }
    // Each record has a unit left at least. Others are not locked, since a planting order may hold them for a second.
    const limit = Math.min(PAGE_RECORDS, missing);
    const page: readonly ReversibleRecord[] = await lockReversible(transaction, owner, filter, {
      after,
      limit,
    });
    for (const record of page) {
      const count = Math.min(record.remaining, missing);
      if (count > 0) {
        selected.push({ record, count });
        missing -= count;
      }
    }
    after = positionOf(page.at(-1));
    if (missing > 0 && page.length < limit) {
      throw tooFewLeft(quantity - missing, "unit");
    }
  }
  return selected;
};

/**
 * Reverses trees or bottles of a store, newest units first, and returns the price that was paid for them to the
 * balance. Records, totals, balance and refunds change in one transaction.
 * @throws DomainError request_invalid if fewer units match, or the balance would be beyond the safe integers
 */
export const reverseStoreRegistrations = (
  context: StoreContext & {
    /** Who reverses, if it is not the client. */
    readonly actor?: Actor;
  },
  write: StoreWrite,
  reversal: {
    readonly kind: Kind;
    readonly quantity: number;
    readonly filter: ImpactFilter;
    readonly reason: string | null;
  },
): Promise<StoreResponse> =>
  runIdempotentWrite(
    context,
    write,
    { recordId: null, costCents: 0 },
    async (transaction, { balanceCents }, now) => {
      const { accountId, mode } = write;
      const { kind, quantity, filter, reason } = reversal;
      const owner = { accountId, mode, kind };
      const reversals = await selectNewestUnits(transaction, owner, filter, quantity);
      await insertReversals(
        transaction,
        accountId,
        reversals.map(({ record, count }) => ({
          refundId: newId(),
          registrationId: record.id,
          count,
        })),
        { reason, reversedAt: now },
      );
      const ordered = reversals.filter(({ record }) => record.isOrdered);
      if (ordered.length > 0) {
        await releaseRefundedTrees(
          transaction,
          owner,
          ordered.map(({ record, count }) => ({ registrationId: record.id, count })),
        );
      }
      if (context.actor) {
        await recordAction(transaction, context.actor, now, {
          action: "refund.registration",
          accountId,
          subject: filter.registrationId ?? null,
          details: { count: quantity },
        });
      }
      const amountCents = reversals.reduce(
        (sum, { record, count }) => sum + count * record.unitPriceCents,
        0,
      );
      if (amountCents > 0) {
        await insertBalanceEntry(transaction, {
          createdAt: now,
          accountId,
          kind: "refund",
          amountCents,
          balanceCents: changedBalance(balanceCents, amountCents),
          quantity,
          note: reason ?? "",
        });
      }
      await subtractFromTotals(
        transaction,
        owner,
        reversals.map(({ record, count }) => ({ registeredAt: record.createdAt, count })),
        now,
      );
    },
  );
