import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import { KINDS } from "../records/owner.rules.ts";
import { fromMicroseconds, spreadTimes, toMicroseconds } from "../records/timestamps.rules.ts";
import { lockBalances, raiseLastRecordTime } from "../stores/balances.sql.ts";
import { insertImportedDonations, listKnownDonations } from "./importedDonations.sql.ts";
import { listTakenTimes } from "./importedEntries.sql.ts";
import type { ImportedEntry, KnownRecord } from "./importedEntries.sql.ts";
import type {
  ImportedDonation,
  ImportedRecord,
  ImportedRegistration,
  ImportKind,
} from "./importedRecords.rules.ts";
import {
  insertImportedRegistrations,
  listKnownRegistrations,
} from "./importedRegistrations.sql.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";

type Batch = readonly ImportedEntry<ImportedRecord>[];

/** How the records of some kinds are stored and compared. */
export type Writer = {
  readonly kinds: readonly ImportKind[];
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
};

const isRegistration = (
  entry: ImportedEntry<ImportedRecord>,
): entry is ImportedEntry<ImportedRegistration> => entry.record.kind !== "donation";

const isDonation = (
  entry: ImportedEntry<ImportedRecord>,
): entry is ImportedEntry<ImportedDonation> => entry.record.kind === "donation";

/** Returns new records with times that no other record of the store has, and locks the store's balance for them. */
const withUniqueTimes = async (
  transaction: DatabaseTransactionConnection,
  owner: ImportOwner,
  batch: Batch,
): Promise<Batch> => {
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

/** Inserts the new records of a store with unique times. */
const forStore = (writer: Writer, owner: ImportOwner): Writer => ({
  ...writer,
  insert: async (connection, batch) => {
    const known = await writer.listKnown(connection, batch);
    const places = new Set(known.map(({ place }) => place));
    const unknown = batch.filter((_, place) => !places.has(place));
    return unknown.length === 0
      ? []
      : connection.transaction(async (transaction) =>
          writer.insert(transaction, await withUniqueTimes(transaction, owner, unknown)),
        );
  },
});

export const createWriters = (
  owner: ImportOwner,
  { ordersPlanting, charityProvider }: WriterOptions,
): readonly Writer[] => {
  const writers: readonly Writer[] = [
    {
      kinds: KINDS,
      insert: (connection, batch) =>
        insertImportedRegistrations(
          connection,
          owner,
          batch.filter(isRegistration),
          !ordersPlanting,
        ),
      listKnown: (connection, batch) =>
        listKnownRegistrations(connection, owner, batch.filter(isRegistration)),
    },
    {
      kinds: ["donation"],
      insert: (connection, batch) =>
        insertImportedDonations(connection, owner, batch.filter(isDonation), charityProvider),
      listKnown: (connection, batch) =>
        listKnownDonations(connection, owner, batch.filter(isDonation)),
    },
  ];
  return owner.isStore ? writers.map((writer) => forStore(writer, owner)) : writers;
};
