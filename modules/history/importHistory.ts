import { unhurriedPace, openBulkPool } from "../../db/createBulkPace.ts";
import type { BulkPace } from "../../db/createBulkPace.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { daysBefore } from "../../runtime/durations.rules.ts";
import { newId } from "../../runtime/newId.ts";
import { assignIds, firstIdOf } from "./assignIds.ts";
import { importEvidence } from "./importEvidence.ts";
import { deleteImportRun, deleteImportRunsBefore } from "./importLines.sql.ts";
import { createReport } from "./importLine.ts";
import type { EvidenceLine, ImportLine, ImportSummary, Rejection } from "./importLine.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";
import { importRecords } from "./importRecords.ts";
import type { ImportContext } from "./importRecords.ts";
import type { InsertOptions } from "./importedRecords.sql.ts";

type ImportOptions = InsertOptions & {
  /** A dry run reports what an import would do. A verification also reports the lines that it would do something for. */
  readonly purpose: "import" | "dry run" | "verification";
};

type ImportObserver = {
  /** Called for each line that is not imported. */
  readonly onRejected: (rejection: Rejection) => void | Promise<void>;
  /** Called after each batch. */
  readonly onProgress: (summary: ImportSummary) => void;
};

/** Longer than any import takes. */
const MAXIMUM_RUN_DAYS = 7;

/** A statement of about 100 ms. */
const BATCH = 2000;

/** A few milliseconds, while bulk work yields to what clients record. */
const YIELDING_BATCH = 100;

/** Groups lines, so that one statement handles many. If the lines end with an error, those before it are yielded first. */
async function* inBatches(
  lines: AsyncIterable<ImportLine>,
  { isYielding }: Pick<BulkPace, "isYielding">,
): AsyncGenerator<readonly ImportLine[], void, void> {
  const batch: ImportLine[] = [];
  try {
    for await (const line of lines) {
      batch.push(line);
      if (batch.length >= (isYielding() ? YIELDING_BATCH : BATCH)) {
        yield batch.splice(0);
      }
    }
  } finally {
    if (batch.length > 0) {
      yield batch;
    }
  }
}

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

const importBatch = async (context: ImportContext, batch: readonly ImportLine[]): Promise<void> => {
  const { db, runId, owner, report } = context;
  const records: Parameters<typeof assignIds>[3][number][] = [];
  const evidence: EvidenceLine[] = [];
  for (const line of batch) {
    report.summary.lines += 1;
    if ("problem" in line) {
      await report.add(line, { outcome: "bad", reason: line.problem });
    } else if ("evidence" in line) {
      evidence.push(line);
    } else {
      records.push({ line, ordinal: report.summary.lines });
    }
  }
  await importRecords(context, await assignIds(db, runId, owner, records));
  await importEvidence(context, evidence);
};

/**
 * Imports records that another system billed: they count in the totals and have no usage, so they are never billed here.
 * Nothing is imported twice, so an interrupted import is completed by running it again. Memory use is constant: lines
 * are read as fast as they are written.
 */
export const importHistory = async (
  { pace = unhurriedPace, ...given }: OperatorContext & { readonly pace?: BulkPace },
  owner: ImportOwner,
  lines: AsyncIterable<ImportLine>,
  { purpose, ...options }: ImportOptions,
  { onRejected, onProgress }: ImportObserver,
): Promise<ImportSummary> => {
  const db = openBulkPool(given.db, pace);
  const report = createReport(purpose === "verification", onRejected);
  const runId = newId();
  const context = { ...given, db, runId, isDryRun: purpose !== "import", owner, options, report };
  await deleteImportRunsBefore(db, firstIdOf(daysBefore(given.clock.now(), MAXIMUM_RUN_DAYS)));
  try {
    for await (const batch of readAhead(inBatches(lines, pace))) {
      await importBatch(context, batch);
      onProgress(report.summary);
    }
  } finally {
    // What is left is deleted by a later run, and the error of this one is the one to report.
    await deleteImportRun(db, runId).catch(() => undefined);
  }
  return report.summary;
};
