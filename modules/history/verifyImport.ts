import type { CommonQueryMethods } from "slonik";
import type { AccountMode } from "../records/owner.rules.ts";
import { listCounterDifferences, sumImported } from "./compareImport.sql.ts";
import { IMPORT_KINDS } from "./importedRecords.rules.ts";
import type { ImportSummary } from "./importLine.ts";

/** Compares the imported records of each kind with how many the files have, and the API's totals with all records. */
export const verifyImport = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  { records: inFiles }: Pick<ImportSummary, "records">,
) => {
  const sums = new Map((await sumImported(db, owner)).map((each) => [each.kind, each]));
  const imported = IMPORT_KINDS.map((kind) => {
    const none = { records: 0, quantity: "0", refunded: "0" };
    return Object.assign({ kind, in_files: inFiles[kind] }, none, sums.get(kind));
  });
  return {
    imported: imported.filter((each) => each.records + each.in_files > 0),
    counters: await listCounterDifferences(db, owner),
  };
};
