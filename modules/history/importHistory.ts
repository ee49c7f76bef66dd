import { unhurriedPace, openBulkPool } from "../../db/createBulkPace.ts";
import type { BulkPace } from "../../db/createBulkPace.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { LineKind } from "./importedRecords.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { assignIds } from "./assignIds.ts";
import { createLedgerImport } from "./createLedgerImport.ts";
import { createRecordImport } from "./createRecordImport.ts";
import { createReport } from "./createReport.ts";
import type { ImportSummary, Report } from "./createReport.ts";
import { createWriters } from "./createWriters.ts";
import type { WriterOptions } from "./createWriters.ts";
import { importEvidence } from "./importEvidence.ts";
import { sortLines, inBatches } from "./importLine.ts";
import type { ImportLine, LineOutcome, Rejection } from "./importLine.ts";
import { withImportRun } from "./withImportRun.ts";

type ImportOptions = WriterOptions & {
  /** Reports what an import would do, and changes nothing. */
  readonly isDryRun: boolean;
};

type ImportObserver = {
  /** Called for each line that is not imported. */
  readonly onRejected: (rejection: Rejection) => void | Promise<void>;
  /** Called after each batch. */
  readonly onProgress: (summary: ImportSummary) => void;
};

/** Lets the next batch be read while one is written. */
async function* readAhead<Item>(items: AsyncGenerator<Item, void, void>): AsyncGenerator<Item> {
  let next = items.next();
  for (;;) {
    const { done, value } = await next;
    if (done === true) {
      return;
    }
    next = items.next();
    // If the consumer fails, its error is the one to report: the item that is being read is never awaited.
    next.catch(() => undefined);
    yield value;
  }
}

/** Counts the outcomes of lines that are not records. */
const settle = async <Line extends ImportLine>(
  report: Report,
  kind: LineKind,
  outcomes: ReadonlyMap<Line, LineOutcome>,
): Promise<void> => {
  for (const [line, result] of outcomes) {
    if ("reason" in result) {
      await report.reject(line, result.outcome, result.reason);
    } else {
      report.add(kind, result.outcome);
    }
  }
};

/**
 * Imports records that another system billed: they count in the totals and have no usage, so they are never billed here.
 * Nothing is imported twice, so an interrupted import is completed by running it again. Memory use is constant: lines
 * are read as fast as they are written.
 */
export const importHistory = (
  {
    pace = unhurriedPace,
    ...given
  }: OperatorContext & {
    readonly pace?: BulkPace;
  },
  owner: AccountMode,
  lines: AsyncIterable<ImportLine>,
  options: ImportOptions,
  { onRejected, onProgress }: ImportObserver,
): Promise<ImportSummary> => {
  const context = { ...given, db: openBulkPool(given.db, pace) };
  return withImportRun(context, async (runId) => {
    const { db, clock } = context;
    const { isDryRun } = options;
    const report = createReport(onRejected);
    const writers = createWriters(owner, options, clock);
    const importRecords = createRecordImport({ ...context, runId, isDryRun }, owner, report);
    const ledger = createLedgerImport({ ...context, runId, isDryRun }, owner.accountId);
    for await (const batch of readAhead(inBatches(lines, pace))) {
      const before = report.addLines(batch.length);
      const { bad, records, evidence, balanceEntries } = sortLines(batch, before);
      for (const line of bad) {
        await report.reject(line, "bad", line.problem);
      }
      const entries = await assignIds(db, runId, owner, records);
      for (const writer of writers) {
        const own = entries.filter(({ record }) => writer.kinds.includes(record.kind));
        if (own.length > 0) {
          await importRecords(writer, own);
        }
      }
      await settle(
        report,
        "evidence",
        await importEvidence({ clock, runId, isDryRun }, db, owner, evidence),
      );
      await settle(report, "balance_entry", await ledger.add(db, balanceEntries));
      onProgress(report.summary());
    }
    return report.summary();
  });
};
