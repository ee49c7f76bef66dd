import type { DatabasePool, CommonQueryMethods } from "slonik";
import { ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import type { InsertedRegistrations, RegistrationEntry } from "./registrations.sql.ts";
import { findByIdempotencyKey, insertRegistrations } from "./registrations.sql.ts";
import { runForAccount } from "../../db/pools/connectionShares.ts";
import { readTotals } from "./totals.sql.ts";
import { countBack, requireAll } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import { registrationOf } from "./registrations.rules.ts";
import type { NewRegistration, Registration, Totals } from "./registrations.rules.ts";
import type { BatchObserver } from "../../db/batching/createGroupCommit.ts";
import { createGroupCommit } from "../../db/batching/createGroupCommit.ts";
import {
  submitTraced,
  traceBatches,
  traceJob,
  traceOfRequest,
} from "../../db/batching/traceBatches.ts";
import type { TracedEntry } from "../../db/batching/traceBatches.ts";
import type { Context } from "../../runtime/context.ts";
import { checkLimits } from "./checkLimits.ts";
import { newId } from "../../runtime/newId.ts";
import { insertTraceContexts } from "../billing/sending/traceContexts.sql.ts";
import type { Tracing } from "../../runtime/tracing.rules.ts";

/** A registration with its owner's totals, as if registrations were recorded one by one in their order of arrival. */
export type Registered = {
  readonly registration: Registration;
  readonly totals: Totals;
  /** Whether the idempotency key was known and this is the original record. */
  readonly replayed: boolean;
};

/** What was recorded for an item of a batch, with its owner's totals after it. */
export type WrittenItem = {
  readonly totals: Totals;
} & (
  | { readonly replayed: false; readonly registration: Registration }
  /** The original record is read when it is needed, because a batch may repeat a thousand large ones. */
  | { readonly replayed: true; readonly registration: null; readonly idempotencyKey: string }
);

export type RegistrationWriter = {
  /**
   * Records an impact action with its usage facts and totals.
   * @throws DomainError request_invalid or daily_limit_reached beyond a limit of the account, or queue_full if too many
   * registrations are waiting
   */
  readonly register: (entry: NewRegistration) => Promise<Registered>;
  /**
   * Records impact actions of one owner in one transaction, in their order.
   * @param isAtomic whether nothing is recorded if any is beyond a limit of the account
   * @throws DomainError queue_full as above, or request_invalid if the owner's total would exceed a safe integer
   * @throws BatchRejectedError
   */
  readonly registerTogether: (
    owner: Owner,
    entries: readonly (NewRegistration & { readonly refusal?: DomainError | null })[],
    isAtomic: boolean,
  ) => Promise<readonly Outcome<WrittenItem>[]>;
  /**
   * Runs another write of many rows that locks an account's totals, while none of its registrations is written.
   * @throws DomainError queue_full as above, and what `work` throws
   */
  readonly runAlone: <Done>(
    accountId: string,
    size: number,
    work: () => Promise<Done>,
  ) => Promise<Done>;
  /** Returns the registration that an earlier request with the idempotency key has created, or null. */
  readonly findOriginal: (owner: Owner, idempotencyKey: string) => Promise<Registered | null>;
  /** Resolves when all waiting registrations have been recorded. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

/**
 * Returns the totals after each new entry of the batch, by its id. The statement returns only the final totals, so they
 * are computed backwards from there.
 */
const totalsInOrder = (
  entries: readonly RegistrationEntry[],
  { insertedIds, totals }: InsertedRegistrations,
): ReadonlyMap<string, Totals> => {
  const inserted = new Set(insertedIds);
  const latest = new Map<string, { all: number; month: number }>();
  for (const { period, total, ...owner } of totals) {
    const known = latest.get(ownerKey(owner)) ?? { all: 0, month: 0 };
    latest.set(
      ownerKey(owner),
      period === "all" ? { ...known, all: total } : { ...known, month: total },
    );
  }
  const after = new Map<string, Totals>();
  for (const entry of entries.toReversed()) {
    const running = latest.get(ownerKey(entry));
    if (running && inserted.has(entry.id)) {
      after.set(entry.id, { ...running });
      running.all -= entry.count;
      running.month -= entry.count;
    }
  }
  return after;
};

const latestTotals = ({ totals }: InsertedRegistrations): Totals => ({
  all: totals.find(({ period }) => period === "all")?.total ?? 0,
  month: totals.find(({ period }) => period !== "all")?.total ?? 0,
});

/** What the database has recorded of a batch. */
type Inserted = {
  readonly createdAt: Date;
  readonly inserted: InsertedRegistrations;
  readonly rejections: ReadonlyMap<RegistrationEntry, DomainError>;
};

const NO_REJECTIONS: Inserted["rejections"] = new Map();

/**
 * Records entries, except those beyond a limit of their account. Accounts without limits need one statement.
 * @param check may throw, and then nothing is recorded
 */
const insert = async (
  db: DatabasePool,
  createdAt: Date,
  entries: readonly RegistrationEntry[],
  check: (rejections: Inserted["rejections"]) => void = () => undefined,
): Promise<Inserted> => {
  if (!entries.some(({ isLimited }) => isLimited)) {
    const inserted = await insertRegistrations(db, entries, createdAt);
    return { createdAt, inserted, rejections: NO_REJECTIONS };
  }
  return db.transaction(async (transaction) => {
    const { rejections, countRegistered } = await checkLimits(transaction, entries, createdAt);
    check(rejections);
    const accepted = entries.filter((entry) => !rejections.has(entry));
    const inserted = await insertRegistrations(transaction, accepted, createdAt);
    const ids = new Set(inserted.insertedIds);
    await countRegistered(accepted.filter(({ id }) => ids.has(id)));
    return { createdAt, inserted, rejections };
  });
};

/** Returns the results of entries of any owners. */
const toResults = (
  entries: readonly RegistrationEntry[],
  { createdAt, inserted, rejections }: Inserted,
  replay: (entry: RegistrationEntry) => Promise<Registered>,
): readonly (Registered | Promise<Registered>)[] => {
  const totals = totalsInOrder(entries, inserted);
  return entries.map((entry) => {
    const rejection = rejections.get(entry);
    if (rejection) {
      return Promise.reject<Registered>(rejection);
    }
    const own = totals.get(entry.id);
    return own
      ? { registration: registrationOf(entry, createdAt), totals: own, replayed: false }
      : replay(entry);
  });
};

/** Returns the results of entries of one owner, whose totals after them are given. */
const toItems = (
  entries: readonly RegistrationEntry[],
  { createdAt, inserted, rejections }: Inserted,
  { all: finalTotal, month }: Totals,
): readonly Outcome<WrittenItem>[] => {
  const ids = new Set(inserted.insertedIds);
  const beforeMonth = finalTotal - month;
  return countBack(
    entries.map((entry) => rejections.get(entry) ?? entry),
    finalTotal,
    ({ id, count }) => (ids.has(id) ? count : 0),
    (entry, all): WrittenItem => {
      const totals = { all, month: all - beforeMonth };
      return ids.has(entry.id)
        ? { replayed: false, registration: registrationOf(entry, createdAt), totals }
        : {
            replayed: true,
            registration: null,
            idempotencyKey: entry.idempotencyKey ?? "",
            totals,
          };
    },
  );
};

/** Reads the originals of replays. No batch waits for them, so that they do not delay writes. */
const createReplays = (findOriginal: RegistrationWriter["findOriginal"]) => {
  const reading = new Set<Promise<unknown>>();

  const getOriginal = async (entry: RegistrationEntry): Promise<Registered> => {
    // The original is committed: the insert waited for the transaction that had the key.
    const original = await findOriginal(entry, entry.idempotencyKey ?? "");
    if (!original) {
      throw new Error(
        `Registration ${entry.id} was not recorded, and its idempotency key is unknown.`,
      );
    }
    return original;
  };

  return {
    /** Returns a function that reads each original of a batch once, by a connection of its account. */
    ofBatch: () => {
      const originals = new Map<string, Promise<Registered>>();
      return (entry: RegistrationEntry): Promise<Registered> => {
        const key = `${ownerKey(entry)}/${entry.idempotencyKey ?? ""}`;
        const known = originals.get(key);
        if (known) {
          return known;
        }
        const original = runForAccount({ accountId: entry.accountId, kind: "replay" }, () =>
          getOriginal(entry),
        );
        originals.set(key, original);
        const settled: Promise<unknown> = Promise.allSettled([original]).then(() =>
          reading.delete(settled),
        );
        reading.add(settled);
        return original;
      };
    },
    drain: () => Promise.all(reading),
  };
};

/**
 * Records which requests made registrations, so that the traces continue when the usage is reported. It runs beside the
 * requests; if it fails, only the traces end.
 */
const rememberRequests = (
  { db, tracing }: { readonly db: CommonQueryMethods; readonly tracing: Tracing },
  entries: readonly (TracedEntry & { readonly id: string })[],
): void => {
  const contexts = entries.flatMap(({ id, trace }) =>
    trace === undefined ? [] : [{ recordId: id, traceParent: trace.request }],
  );
  if (contexts.length > 0) {
    insertTraceContexts(db, contexts).catch(tracing.reportLoss);
  }
};

/** Records registrations by group commit. */
export const createRegistrationWriter = ({
  db,
  clock,
  observeBatch,
  maximumWaiting,
  tracing,
}: Context & {
  readonly observeBatch?: BatchObserver;
  readonly maximumWaiting?: number;
}): RegistrationWriter => {
  const findOriginal: RegistrationWriter["findOriginal"] = async (owner, idempotencyKey) => {
    const original = await findByIdempotencyKey(db, owner, idempotencyKey, clock.now());
    return original && { ...original, replayed: true };
  };
  const replays = createReplays(findOriginal);

  const write = async (entries: readonly RegistrationEntry[]) =>
    toResults(entries, await insert(db, clock.now(), entries), replays.ofBatch());

  const writeTogether = async (
    owner: Owner,
    entries: Parameters<RegistrationWriter["registerTogether"]>[1],
    isAtomic: boolean,
  ): Promise<readonly Outcome<WrittenItem>[]> => {
    const batch = entries.map((entry) => ({ ...entry, id: newId() }));
    const result = await insert(db, clock.now(), batch, (rejections) => {
      if (isAtomic) {
        requireAll(batch.map((entry) => rejections.get(entry)));
      }
    });
    if (tracing !== undefined) {
      const trace = traceOfRequest(tracing);
      tracing.runUntraced(() =>
        rememberRequests(
          { db, tracing },
          batch.map(({ id }) => ({ id, ...trace })),
        ),
      );
    }
    // The statement returns the final totals, unless it has inserted nothing.
    const totals =
      result.inserted.insertedIds.length === 0
        ? await readTotals(db, owner, result.createdAt)
        : latestTotals(result.inserted);
    return toItems(batch, result, totals);
  };

  const queue = createGroupCommit<RegistrationEntry & TracedEntry, Registered>({
    write:
      tracing === undefined
        ? write
        : traceBatches(tracing, write, (entries: readonly (RegistrationEntry & TracedEntry)[]) =>
            rememberRequests({ db, tracing }, entries),
          ),
    accountOf: ({ accountId }) => accountId,
    observeBatch,
    maximumWaiting,
  });
  const runAlone: RegistrationWriter["runAlone"] =
    tracing === undefined
      ? queue.runAlone
      : (accountId, size, work) => queue.runAlone(accountId, size, traceJob(tracing, size, work));
  return {
    register: (entry) => submitTraced(tracing, queue.submit, { ...entry, id: newId() }),
    registerTogether: (owner, entries, isAtomic) =>
      runAlone(owner.accountId, entries.length, () => writeTogether(owner, entries, isAtomic)),
    runAlone,
    findOriginal,
    drain: async () => {
      await queue.drain();
      await replays.drain();
    },
    queueLength: queue.queueLength,
  };
};
