import type { DatabaseTransactionConnection } from "slonik";
import { counted } from "../../runtime/counted.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import { positionOf } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { subtractFromTotals } from "../registrations/totals.sql.ts";
import { insertBalanceEntry } from "./balances.sql.ts";
import { insertReversals, lockReversible } from "./storeRegistrations.sql.ts";
import type { ReversibleRecord } from "./storeRegistrations.sql.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { Kind, Owner } from "../records/owner.rules.ts";
import { changedBalance } from "./stores.rules.ts";
import type { ImpactFilter } from "./customers.rules.ts";
import type { StoreResponse, StoreWrite } from "./storeWrites.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";
import type { StoreContext } from "./context.ts";
import { runIdempotentWrite } from "./runIdempotentWrite.ts";
import { newId } from "../../runtime/newId.ts";
import { lockNewestDonations } from "./storeDonations.sql.ts";
import { insertDonationRefunds } from "../charities/donationBatches.sql.ts";

/** What limits the size of a transaction; larger reversals need several calls. */
export const MAXIMUM_RECORDS = 10_000;
export const MAXIMUM_DONATIONS = 1000;

/** Returns the error for a reversal of more units or donations than remain. */
const tooFewLeft = (left: number, unit: "unit" | "donation"): DomainError =>
  invalidRequest(
    left === 0
      ? `quantity: no matching ${unit} remains to be reversed; a customer's name must match as a whole`
      : `quantity: only ${counted(left, `of the matching ${unit}s remains`, `of the matching ${unit}s remain`)} to be reversed`,
  );

/** What a client wants reversed, the newest first. */
type Reversal = {
  readonly quantity: number;
  readonly filter: ImpactFilter;
  readonly reason: string | null;
};

const PAGE_RECORDS = 500;

type ReversedUnits = { readonly record: ReversibleRecord; readonly count: number };

/** Locks the newest `quantity` units and returns the records that they belong to. */
const selectNewestUnits = async (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  filter: ImpactFilter,
  quantity: number,
): Promise<readonly ReversedUnits[]> => {
  const selected: ReversedUnits[] = [];
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
  { kind, quantity, filter, reason }: Reversal & { readonly kind: Kind },
): Promise<StoreResponse> =>
  runIdempotentWrite(
    context,
    write,
    { recordId: null, costCents: 0 },
    async (transaction, { balanceCents }, now) => {
      const { accountId, mode } = write;
      const owner = { accountId, mode, kind };
      const reversals = await selectNewestUnits(transaction, owner, filter, quantity);
      if (kind === PLANTED_KIND) {
        await releaseRefundedTrees(
          transaction,
          reversals.map(({ record, count }) => ({ registrationId: record.id, count })),
        );
      }
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
      );
    },
  );

/**
 * Marks donations of a store as refunded, newest first. The balance stays, since the charity has the money.
 * @throws DomainError request_invalid if fewer donations match
 */
export const reverseStoreDonations = (
  context: StoreContext,
  write: StoreWrite,
  { quantity, filter, reason }: Reversal,
): Promise<StoreResponse> =>
  runIdempotentWrite(
    context,
    write,
    { recordId: null, costCents: 0 },
    async (transaction, _balance, now) => {
      const owner = { accountId: write.accountId, mode: write.mode };
      if (quantity > MAXIMUM_DONATIONS) {
        throw invalidRequest(
          `quantity: at most ${MAXIMUM_DONATIONS} donations can be reversed in one call`,
        );
      }
      const found = await lockNewestDonations(transaction, owner, filter, quantity);
      if (found.length < quantity) {
        throw tooFewLeft(found.length, "donation");
      }
      const request = { reason, idempotencyKey: null, metadata: {} };
      await insertDonationRefunds(
        transaction,
        owner,
        found.map((donation) => ({ donation, request })),
        now,
        [],
      );
    },
  );
