import { ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import type { RegistrationEntry } from "./registrations.sql.ts";
import { insertRegistrations, listByIdempotencyKeys } from "./registrations.sql.ts";
import { readTotals } from "./totals.sql.ts";
import { isAccepted, requireAll, resultOfOne } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { mustExist } from "../../runtime/errors.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import { registrationOf } from "./registrations.rules.ts";
import type { NewRegistration, Registration, Totals } from "./registrations.rules.ts";
import type { BatchObserver } from "../../db/batching/groupCommit.ts";
import { GroupCommit } from "../../db/batching/groupCommit.ts";
import type { Context } from "../../runtime/context.ts";
import { checkLimits } from "./checkLimits.ts";
import { newId } from "../../runtime/newId.ts";

/** What was recorded for an item of a batch. What a replay returns is read later: a batch may repeat a thousand large ones. */
type WrittenItem = {
  /** Null for a replay. */
  readonly registration: Registration | null;
  /** Whether the idempotency key was known, so that the original record is returned. */
  readonly replayed: boolean;
  readonly idempotencyKey: string | null;
  /** As if the items were recorded one by one. */
  readonly totals: Totals;
};

/** The totals are null if it is a replay and its owner has no new item in the batch. */
type EntryOutcome = Outcome<Omit<WrittenItem, "totals"> & { readonly totals: Totals | null }>;

/**
 * Returns the outcomes of a batch, with the totals after each entry. The statement returns only the final totals of owners
 * with new entries, so they are computed backwards from there.
 */
const outcomesInOrder = (
  entries: readonly RegistrationEntry[],
  { insertedIds, totals }: Awaited<ReturnType<typeof insertRegistrations>>,
  rejections: ReadonlyMap<RegistrationEntry, DomainError>,
  createdAt: Date,
): readonly EntryOutcome[] => {
  const running = new Map(totals);
  const outcomes = entries.toReversed().map((entry): EntryOutcome => {
    const rejection = rejections.get(entry);
    if (rejection) {
      return rejection;
    }
    const { id, count, idempotencyKey } = entry;
    const owner = ownerKey(entry);
    const after = running.get(owner) ?? null;
    if (after === null || insertedIds?.has(id) === false) {
      return { registration: null, replayed: true, idempotencyKey, totals: after };
    }
    running.set(owner, { all: after.all - count, month: after.month - count });
    const registration = registrationOf(entry, createdAt);
    return { registration, replayed: false, idempotencyKey, totals: after };
  });
  return outcomes.toReversed();
};

/**
 * Records entries, except refused ones and those beyond a limit of their account. Batches without either need one statement.
 * @param isAtomic whether nothing is recorded if an entry is rejected
 * @throws DomainError request_invalid if a total would exceed a safe integer
 * @throws BatchRejectedError
 */
const insert = async (
  { db, clock }: Context,
  entries: readonly RegistrationEntry[],
  isAtomic = false,
): Promise<readonly EntryOutcome[]> => {
  const createdAt = clock.now();
  if (!entries.some(({ isLimited, refusal }) => isLimited || refusal)) {
    const inserted = await insertRegistrations(db, entries, createdAt);
    return outcomesInOrder(entries, inserted, new Map(), createdAt);
  }
  return db.transaction(async (transaction) => {
    const { rejections, countRegistered } = await checkLimits(transaction, entries, createdAt);
    if (isAtomic) {
      requireAll(entries.map((entry) => rejections.get(entry)));
    }
    const accepted = entries.filter((entry) => !rejections.has(entry));
    const inserted = await insertRegistrations(transaction, accepted, createdAt);
    await countRegistered(accepted.filter(({ id }) => inserted.insertedIds?.has(id) ?? true));
    return outcomesInOrder(entries, inserted, rejections, createdAt);
  });
};

/** Returns what was recorded. The originals of replays are read now: the insert waited for the transactions that had their keys. */
export const readRegistered = async (
  { db }: Pick<Context, "db">,
  owner: Owner,
  items: readonly WrittenItem[],
) => {
  const keys = items.flatMap(({ registration, idempotencyKey }) =>
    registration === null && idempotencyKey !== null ? [idempotencyKey] : [],
  );
  const originals = keys.length === 0 ? [] : await listByIdempotencyKeys(db, owner, keys);
  const byKey = new Map(originals.map((original) => [original.idempotencyKey, original]));
  return items.map(({ registration, totals, replayed, idempotencyKey }) => ({
    registration: mustExist(
      registration ?? byKey.get(idempotencyKey),
      "An item was not recorded, and its idempotency key is unknown.",
    ),
    totals,
    replayed,
  }));
};

export const createRegistrationWriter = (context: Context, observeBatch?: BatchObserver) => {
  const { db, clock } = context;

  const queue = new GroupCommit<RegistrationEntry, EntryOutcome>({
    write: (entries) => insert(context, entries),
    accountOf: ({ accountId }) => accountId,
    observeBatch,
  });

  /**
   * Records impact actions of one owner with their usage facts and totals, in their order and within the account's limits:
   * one together with those of others that wait; several, or a refused one that may be a replay and would delay the others,
   * in a transaction of their own. One with a known idempotency key, or with that of an earlier one, returns the original
   * record; a refused one can do nothing else.
   * @param isAtomic whether nothing is recorded if any is rejected; otherwise the others are recorded
   * @throws DomainError request_invalid if the owner's total would exceed a safe integer; nothing is recorded then
   * @throws BatchRejectedError
   */
  const write = async (owner: Owner, entries: readonly NewRegistration[], isAtomic: boolean) => {
    const batch = entries.map((entry) => ({ ...entry, id: newId() }));
    const first = batch.length === 1 ? batch[0] : undefined;
    const writeBatch = async (): Promise<readonly EntryOutcome[]> => {
      if (first?.refusal && first.idempotencyKey === null) {
        return [first.refusal];
      }
      return first && !first.refusal
        ? [await queue.submit(first)]
        : queue.runAlone(owner.accountId, batch.length, () => insert(context, batch, isAtomic));
    };
    const outcomes = await writeBatch();
    if (isAtomic) {
      requireAll(outcomes);
    }
    const isUnchanged = outcomes.some((each) => isAccepted(each) && each.totals === null);
    const current = isUnchanged ? await readTotals(db, owner, clock.now()) : { all: 0, month: 0 };
    return outcomes.map((each) =>
      isAccepted(each) ? Object.assign({}, each, { totals: each.totals ?? current }) : each,
    );
  };

  return {
    write,
    /** @throws DomainError request_invalid or daily_limit_reached beyond a limit of the account */
    register: async (entry: NewRegistration) => {
      const written = resultOfOne(await write(entry, [entry], false));
      return resultOfOne(await readRegistered(context, entry, [written]));
    },
    drain: queue.drain,
    queueLength: queue.queueLength,
  };
};
