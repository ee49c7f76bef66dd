import type { CommonQueryMethods } from "slonik";
import type { AccountMode } from "../records/owner.rules.ts";
import { countImported } from "./compareImport.sql.ts";
import { IMPORT_KINDS } from "./importedRecords.rules.ts";
import type { ImportSummary } from "./importLine.ts";

/** Returns the number of imported records of each kind, and how many the files have. */
export const compareImport = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  { records: inFiles }: Pick<ImportSummary, "records">,
) => {
  const counts = new Map((await countImported(db, owner)).map((each) => [each.kind, each]));
  return IMPORT_KINDS.map((kind) => ({
    kind,
    in_files: inFiles[kind],
    records: counts.get(kind)?.records ?? 0,
  })).filter((each) => each.records + each.in_files > 0);
};
