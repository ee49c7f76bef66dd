import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { fromMicroseconds, spreadTimes, toMicroseconds } from "../records/timestamps.rules.ts";
import { lockBalances, raiseLastRecordTime } from "../stores/balances.sql.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";
import { insertImported, listTakenTimes } from "./importedRecords.sql.ts";
import type { ImportedEntry, InsertOptions } from "./importedRecords.sql.ts";

/** Returns records with times that no other record of the store has, and locks the store's balance for them. */
const withUniqueTimes = async (
  transaction: DatabaseTransactionConnection,
  owner: ImportOwner,
  batch: readonly ImportedEntry[],
): Promise<readonly ImportedEntry[]> => {
  await lockBalances(transaction, [owner.accountId]);
  const given = batch.map(({ record }) => toMicroseconds(record.created_at));
  const taken = new Set<number>();
  let times: readonly string[];
  let found: readonly string[];
  do {
    times = spreadTimes(given, taken).map(fromMicroseconds);
    found = await listTakenTimes(transaction, owner, times);
    found.forEach((time) => taken.add(toMicroseconds(time)));
  } while (found.length > 0);
  await raiseLastRecordTime(transaction, owner.accountId, times);
  return batch.map(({ id, record }, place) => ({
    id,
    record: { ...record, created_at: times[place] ?? record.created_at },
  }));
};

/** Inserts records, those of a store with unique times. */
export const insertRecords = (
  {
    db,
    owner,
    options,
  }: { readonly db: DatabasePool; readonly owner: ImportOwner; readonly options: InsertOptions },
  table: RecordTable,
  batch: readonly ImportedEntry[],
): Promise<readonly string[]> =>
  owner.isStore
    ? db.transaction(async (transaction) => {
        const entries = await withUniqueTimes(transaction, owner, batch);
        return insertImported(transaction, table, owner, entries, options);
      })
    : insertImported(db, table, owner, batch, options);
