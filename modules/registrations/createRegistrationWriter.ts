import { ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import type { InsertedRegistrations, RegistrationEntry } from "./registrations.sql.ts";
import { insertRegistrations, listByIdempotencyKeys } from "./registrations.sql.ts";
import { readTotals } from "./totals.sql.ts";
import { isAccepted, requireAll, resultOfOne } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import { registrationOf } from "./registrations.rules.ts";
import type { NewRegistration, Registration, Totals } from "./registrations.rules.ts";
import type { BatchObserver } from "../../db/batching/groupCommit.ts";
import { GroupCommit } from "../../db/batching/groupCommit.ts";
import type { Context } from "../../runtime/context.ts";
import { checkLimits } from "./checkLimits.ts";
import { newId } from "../../runtime/newId.ts";

/** A registration with its owner's totals, as if registrations were recorded one by one in their order of arrival. */
export type Registered = {
  readonly registration: Registration;
  readonly totals: Totals;
  /** Whether the idempotency key was known and this is the original record. */
  readonly replayed: boolean;
};

/** What was recorded for an item of a batch. The original of a replay is read later: a batch may repeat a thousand large ones. */
export type WrittenItem = Omit<Registered, "registration"> & {
  readonly registration: Registration | null;
  readonly idempotencyKey: string | null;
};

export type RegistrationWriter = {
  /**
   * Records impact actions of one owner with their usage facts and totals, in their order: one together with those of others
   * that wait, several in a transaction of their own.
   * @param isAtomic whether nothing is recorded if any of several is beyond a limit of the account
   * @throws DomainError request_invalid if the owner's total would exceed a safe integer and all or nothing is recorded
   * @throws BatchRejectedError
   */
  readonly write: (
    owner: Owner,
    entries: readonly NewRegistration[],
    isAtomic: boolean,
  ) => Promise<readonly Outcome<WrittenItem>[]>;
  /**
   * Records one impact action.
   * @throws DomainError request_invalid or daily_limit_reached beyond a limit of the account
   */
  readonly register: (entry: NewRegistration) => Promise<Registered>;
  /** Resolves when all waiting registrations have been recorded. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

/** The totals are null if it is a replay and its owner has no new entry in the batch. */
type EntryOutcome = Outcome<
  WrittenItem | (Omit<WrittenItem, "totals"> & { readonly totals: null })
>;

/**
 * Returns the outcomes of a batch, with the totals after each entry. The statement returns only the final totals of owners
 * with new entries, so they are computed backwards from there.
 */
const outcomesInOrder = (
  entries: readonly RegistrationEntry[],
  { insertedIds, totals }: InsertedRegistrations,
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
      return { registration: null, totals: after, replayed: true, idempotencyKey };
    }
    running.set(owner, { all: after.all - count, month: after.month - count });
    const registration = registrationOf(entry, createdAt);
    return { registration, totals: after, replayed: false, idempotencyKey };
  });
  return outcomes.toReversed();
};

/**
 * Records entries, except those beyond a limit of their account. Accounts without limits need one statement.
 * @param isAtomic whether nothing is recorded if an entry is rejected
 * @param room how many units may be added to the total of the one owner of a batch, whose further entries are rejected
 * @throws BatchRejectedError
 */
const insert = async (
  { db, clock }: Context,
  entries: readonly RegistrationEntry[],
  isAtomic = false,
  room = Infinity,
): Promise<readonly EntryOutcome[]> => {
  const createdAt = clock.now();
  const fits = room === Infinity || entries.reduce((sum, { count }) => sum + count, 0) <= room;
  if (fits && !entries.some(({ isLimited }) => isLimited)) {
    const inserted = await insertRegistrations(db, entries, createdAt);
    return outcomesInOrder(entries, inserted, new Map(), createdAt);
  }
  return db.transaction(async (transaction) => {
    const { rejections, countRegistered } = await checkLimits(
      transaction,
      entries,
      createdAt,
      room,
    );
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
): Promise<readonly Registered[]> => {
  const keys = items.flatMap(({ registration, idempotencyKey }) =>
    registration === null && idempotencyKey !== null ? [idempotencyKey] : [],
  );
  const originals = keys.length === 0 ? [] : await listByIdempotencyKeys(db, owner, keys);
  const byKey = new Map(originals.map((original) => [original.idempotencyKey, original]));
  return items.map(({ registration: written, totals, replayed, idempotencyKey }) => {
    const registration = written ?? byKey.get(idempotencyKey);
    if (!registration) {
      throw new Error("An item was not recorded, and its idempotency key is unknown.");
    }
    return { registration, totals, replayed };
  });
};

/** Records registrations by group commit. */
export const createRegistrationWriter = ({
  observeBatch,
  ...context
}: Context & {
  readonly observeBatch?: BatchObserver;
}): RegistrationWriter => {
  const { db, clock } = context;

  const queue = new GroupCommit<RegistrationEntry, EntryOutcome>({
    write: (entries) => insert(context, entries),
    accountOf: ({ accountId }) => accountId,
    observeBatch,
  });

  const insertAlone = async (
    owner: Owner,
    batch: readonly RegistrationEntry[],
    isAtomic: boolean,
  ): Promise<readonly EntryOutcome[]> => {
    const room = isAtomic
      ? Infinity
      : Number.MAX_SAFE_INTEGER - (await readTotals(db, owner, clock.now())).all;
    return insert(context, batch, isAtomic, room);
  };

  const write: RegistrationWriter["write"] = async (owner, entries, isAtomic) => {
    const batch = entries.map((entry) => ({ ...entry, id: newId() }));
    const [first] = batch;
    const outcomes =
      first && batch.length === 1
        ? [await queue.submit(first)]
        : await queue.runAlone(owner.accountId, batch.length, () =>
            insertAlone(owner, batch, isAtomic),
          );
    const isUnchanged = outcomes.some((each) => isAccepted(each) && each.totals === null);
    const totals = isUnchanged ? await readTotals(db, owner, clock.now()) : { all: 0, month: 0 };
    return outcomes.map((outcome) =>
      isAccepted(outcome) && outcome.totals === null
        ? Object.assign({}, outcome, { totals })
        : outcome,
    );
  };

  return {
    write,
    register: async (entry) => {
      const written = resultOfOne(await write(entry, [entry], false));
      return resultOfOne(await readRegistered(context, entry, [written]));
    },
    drain: queue.drain,
    queueLength: queue.queueLength,
  };
};
