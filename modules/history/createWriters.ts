import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { insertImportedDonations, listKnownDonations } from "./importedDonations.sql.ts";
import { listTakenTimes, insertImportedStoreKeys } from "./importedEntries.sql.ts";
import type { ImportedEntry, KnownRecord } from "./importedEntries.sql.ts";
import {
  insertImportedRegistrations,
  listKnownRegistrations,
} from "./importedRegistrations.sql.ts";
import { lockBalances, raiseLastRecordTime } from "../stores/balances.sql.ts";
import { listIdempotentResponses } from "../stores/idempotentResponses.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import { REGISTER_OPERATIONS } from "../records/idempotencyKeys.rules.ts";
import type { StoreOperation } from "../stores/stores.rules.ts";
import { responseKey } from "../stores/storeWrites.rules.ts";
import { fromMicroseconds, spreadTimes, toMicroseconds } from "../records/timestamps.rules.ts";
import type {
  ImportedDonation,
  ImportedRecord,
  ImportedRegistration,
  ImportKind,
} from "./importedRecords.rules.ts";

type Batch = readonly ImportedEntry<ImportedRecord>[];

/** How the records of some kinds are stored and compared. */
export type Writer = {
  readonly kinds: readonly ImportKind[];
  /** Whether batches must be inserted one after the other, because the times of the records depend on their order. */
  readonly isOrdered: boolean;
  /** Inserts the records whose ids and keys are new, and returns their ids. */
  readonly insert: (connection: CommonQueryMethods, batch: Batch) => Promise<readonly string[]>;
  readonly listKnown: (
    connection: CommonQueryMethods,
    batch: Batch,
  ) => Promise<readonly KnownRecord[]>;
};

export type WriterOptions = {
  /** Whether the planting partner plants the imported trees. */
  readonly ordersPlanting: boolean;
  /** The provider that knows the ids of the donations' charities. */
  readonly charityProvider: CharityProviderName;
  /** Whether the owner is a store, whose idempotency keys are stored apart from its records. */
  readonly isStore: boolean;
};

const isRegistration = (
  entry: ImportedEntry<ImportedRecord>,
): entry is ImportedEntry<ImportedRegistration> => entry.record.kind !== "donation";

const isDonation = (
  entry: ImportedEntry<ImportedRecord>,
): entry is ImportedEntry<ImportedDonation> => entry.record.kind === "donation";

const createRecordWriters = (
  owner: AccountMode,
  { ordersPlanting, charityProvider }: WriterOptions,
): readonly Writer[] => [
  {
    kinds: KINDS,
    isOrdered: false,
    insert: (connection, batch) =>
      insertImportedRegistrations(connection, owner, batch.filter(isRegistration), !ordersPlanting),
    listKnown: (connection, batch) =>
      listKnownRegistrations(connection, owner, batch.filter(isRegistration)),
  },
  {
    kinds: ["donation"],
    isOrdered: false,
    insert: (connection, batch) =>
      insertImportedDonations(connection, owner, batch.filter(isDonation), charityProvider),
    listKnown: (connection, batch) =>
      listKnownDonations(connection, owner, batch.filter(isDonation)),
  },
];

const OPERATIONS: Readonly<Record<ImportKind, StoreOperation>> = {
  ...REGISTER_OPERATIONS,
  donation: "donate",
};

const withoutKeys = (batch: Batch): Batch =>
  batch.map(({ id, record }) => ({ id, record: { ...record, idempotencyKey: null } }));

const withKeyDifference = (match: KnownRecord): KnownRecord => ({
  ...match,
  differences: [...match.differences, "idempotency_key"],
  hasFurtherRefund: false,
});

/** Returns new records with times that no other record of the store has, and locks the store's balance for them. */
const withUniqueTimes = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  batch: Batch,
): Promise<Batch> => {
  if (batch.length === 0) {
    return batch;
  }
  await lockBalances(transaction, [owner.accountId]);
  const given = batch.map(({ record }) => toMicroseconds(record.createdAt));
  const taken = new Set<number>();
  let times: readonly string[];
  let found: readonly string[];
  do {
    times = spreadTimes(given, taken).map(fromMicroseconds);
    found = await listTakenTimes(transaction, owner, times);
    for (const time of found) {
      taken.add(toMicroseconds(time));
    }
  } while (found.length > 0);
  await raiseLastRecordTime(transaction, owner.accountId, times);
  return batch.map((entry, place) => ({
    ...entry,
    record: { ...entry.record, createdAt: times[place] ?? entry.record.createdAt },
  }));
};

/** Stores the records without their keys, and the keys of the new ones as those of the store's own writes are stored. */
const forStore = (writer: Writer, owner: AccountMode, clock: Clock): Writer => {
  const keyOf = ({ kind, idempotencyKey: key }: ImportedRecord) =>
    key === null ? null : { ...owner, operation: OPERATIONS[kind], key };

  /** Returns whether the key of a record is in use, by another imported record or by a write here. */
  const findTaken = async (connection: CommonQueryMethods, batch: Batch) => {
    const keys = batch.flatMap(({ record }) => keyOf(record) ?? []);
    const stored = new Set((await listIdempotentResponses(connection, keys)).map(responseKey));
    return (record: ImportedRecord): boolean => {
      const key = keyOf(record);
      return key !== null && stored.has(responseKey(key));
    };
  };

  return {
    ...writer,
    isOrdered: true,
    insert: (connection, batch) =>
      connection.transaction(async (transaction) => {
        const isTaken = await findTaken(transaction, batch);
        const free = withoutKeys(batch.filter(({ record }) => !isTaken(record)));
        const known = new Set(
          (await writer.listKnown(transaction, free)).map(({ place }) => place),
        );
        const unknown = free.filter((_, place) => !known.has(place));
        const inserted = await writer.insert(
          transaction,
          await withUniqueTimes(transaction, owner, unknown),
        );
        const isNew = new Set(inserted);
        const keys = batch.flatMap(({ id, record }) =>
          isNew.has(id) ? (keyOf(record) ?? []) : [],
        );
        await insertImportedStoreKeys(transaction, owner, keys, clock.now());
        return inserted;
      }),
    listKnown: async (connection, batch) => {
      // Before the records: each of them is visible once its key is.
      const isTaken = await findTaken(connection, batch);
      const known = await writer.listKnown(connection, withoutKeys(batch));
      const places = new Set(known.map(({ place }) => place));
      // After the records: the key of each is visible once it is.
      const isStored = await findTaken(
        connection,
        batch.filter((_, place) => places.has(place)),
      );
      const lacksKey = (record: ImportedRecord | undefined): boolean =>
        record !== undefined && record.idempotencyKey !== null && !isStored(record);
      return [
        ...known.map((match) =>
          lacksKey(batch[match.place]?.record) ? withKeyDifference(match) : match,
        ),
        // A record that is found by its id may have the key itself.
        ...batch.flatMap(({ id, record }, place) =>
          isTaken(record) && !places.has(place)
            ? [{ place, id, differences: ["id"], hasFurtherRefund: false }]
            : [],
        ),
      ];
    },
  };
};

export const createWriters = (
  owner: AccountMode,
  options: WriterOptions,
  clock: Clock,
): readonly Writer[] => {
  const writers = createRecordWriters(owner, options);
  return options.isStore ? writers.map((writer) => forStore(writer, owner, clock)) : writers;
};
