import type { ImportSummary } from "./createReport.ts";
import { listCounterDifferences, sumImported } from "./compareImport.sql.ts";
import type { CounterDifference, ImportedSums } from "./compareImport.sql.ts";
import { importHistory } from "./importHistory.ts";
import { IMPORT_KINDS } from "./importedRecords.rules.ts";

const NOTHING = { records: 0, quantity: "0", refunded: "0" };

export type Verification = {
  readonly summary: ImportSummary;
  /** The imported records of each kind, and how many the files have. */
  readonly imported: readonly (ImportedSums & { readonly inFiles: number })[];
  readonly counters: readonly CounterDifference[];
};

/**
 * Compares every line of files with what is recorded, the number of imported records with that of the files, and the totals
 * that the API returns with the records. Changes nothing.
 */
export const verifyImport = async (
  ...[context, owner, lines, options, observer]: Parameters<typeof importHistory>
): Promise<Verification> => {
  const purpose = "verification";
  const summary = await importHistory(context, owner, lines, { ...options, purpose }, observer);
  const sums = new Map((await sumImported(context.db, owner)).map((each) => [each.kind, each]));
  const imported = IMPORT_KINDS.map((kind) => {
    const { records, quantity, refunded } = sums.get(kind) ?? NOTHING;
    return { kind, records, quantity, refunded, inFiles: summary.kinds[kind].records };
  });
  return {
    summary,
    imported: imported.filter(({ records, inFiles }) => records + inFiles > 0),
    counters: await listCounterDifferences(context.db, owner),
  };
};
