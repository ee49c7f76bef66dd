import type { CommonQueryMethods } from "slonik";
import { insertImportedDonations, listKnownDonations } from "../../db/history/importedDonations.ts";
import type { ImportedEntry, KnownRecord } from "../../db/history/importedEntries.ts";
import {
  insertImportedRegistrations,
  listKnownRegistrations,
} from "../../db/history/importedRegistrations.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
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
};

const isRegistration = (
  entry: ImportedEntry<ImportedRecord>,
): entry is ImportedEntry<ImportedRegistration> => entry.record.kind !== "donation";

const isDonation = (
  entry: ImportedEntry<ImportedRecord>,
): entry is ImportedEntry<ImportedDonation> => entry.record.kind === "donation";

export const createWriters = (
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
