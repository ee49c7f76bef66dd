import type { CommonQueryMethods } from "slonik";
import { insertImportedDonations, listKnownDonations } from "../../db/history/importedDonations.ts";
import type { ImportedEntry, KnownRecord } from "../../db/history/importedEntries.ts";
import {
  insertImportedRegistrations,
  listKnownRegistrations,
} from "../../db/history/importedRegistrations.ts";
import { insertImportedStoreKeys } from "../../db/history/importedStoreKeys.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import type { StoreOperation } from "../../domain/stores/stores.ts";
import type { CharityProviderName } from "../../domain/charities/charities.ts";
import type {
  ImportedDonation,
  ImportedRecord,
  ImportedRegistration,
  ImportKind,
} from "../../domain/history/importedRecords.ts";

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
    kinds: ["tree", "bottle"],
    insert: (connection, batch) =>
      insertImportedRegistrations(connection, owner, batch.filter(isRegistration), !ordersPlanting),
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

const OPERATIONS: Readonly<Record<ImportKind, StoreOperation>> = {
  tree: "plant",
  bottle: "plastic",
  donation: "donate",
};

const withoutKeys = (batch: Batch): Batch =>
  batch.map(({ id, record }) => ({ id, record: { ...record, idempotencyKey: null } }));

/** Stores the records without their keys, and the keys of the new ones as those of the store's own writes are stored. */
const forStore = (writer: Writer, owner: AccountMode, clock: Clock): Writer => ({
  ...writer,
  insert: (connection, batch) =>
    connection.transaction(async (transaction) => {
      const inserted = await writer.insert(transaction, withoutKeys(batch));
      const isNew = new Set(inserted);
      const keys = batch.flatMap(({ id, record: { kind, idempotencyKey: key } }) =>
        key !== null && isNew.has(id) ? [{ operation: OPERATIONS[kind], key }] : [],
      );
      await insertImportedStoreKeys(transaction, owner, keys, clock.now());
      return inserted;
    }),
  listKnown: (connection, batch) => writer.listKnown(connection, withoutKeys(batch)),
});

export const createWriters = (
  owner: AccountMode,
  options: WriterOptions,
  clock: Clock,
): readonly Writer[] => {
  const writers = createRecordWriters(owner, options);
  return options.isStore ? writers.map((writer) => forStore(writer, owner, clock)) : writers;
};
