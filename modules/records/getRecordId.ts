import type { CommonQueryMethods } from "slonik";
import { listRecordIds } from "./ownedRecords.sql.ts";
import type { RecordTable } from "./ownedRecords.sql.ts";
import { requireOneRecord } from "./recordIds.rules.ts";

/**
 * Returns the id of the record that an operator names by its id or by the id that it was imported with.
 * @param accountId the account that has it; null for any
 * @throws DomainError record_not_found, or request_invalid if several records have the id
 */
export const getRecordId = async (
  db: CommonQueryMethods,
  table: RecordTable,
  given: string,
  accountId: string | null,
): Promise<string> =>
  requireOneRecord(table, given, await listRecordIds(db, table, given, accountId));
