import type { OperatorContext } from "../accounts/context.ts";
import { importEvidence } from "./importEvidence.ts";
import { countLine, noSummary } from "./importLine.ts";
import type { ImportLine, ImportSummary, Outcomes, Rejection } from "./importLine.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";
import { importRecords } from "./importRecords.ts";
import type { InsertOptions } from "./importedRecords.sql.ts";

type ImportOptions = InsertOptions & {
  /** A dry run reports what an import would do. A verification also reports the lines that it would do something for. */
  readonly purpose: "import" | "dry run" | "verification";
};

type ImportObserver = {
  /** Called for each line that is not imported, in their order. */
  readonly onRejected: (rejection: Rejection) => void | Promise<void>;
  /** Called after each batch, with the number of lines so far. */
  readonly onProgress: (lines: number) => void;
};

/** Statements of about 25 ms, so that what clients record hardly waits for one of them. */
const BATCH = 500;

/** Groups lines, so that one statement handles many. If the lines end with an error, those before it are yielded first. */
async function* inBatches(lines: AsyncIterable<ImportLine>) {
  const batch: ImportLine[] = [];
  try {
    for await (const line of lines) {
      batch.push(line);
      if (batch.length >= BATCH) {
        yield batch.splice(0);
      }
    }
  } finally {
    if (batch.length > 0) {
      yield batch;
    }
  }
}

const MISSING = {
  new: "it is not recorded here",
  refunded_since: "more of it is refunded in the file",
} as const;

/**
 * Imports records that another system billed: they count in the totals and have no usage, so they are never billed here.
 * Nothing is imported twice, so an interrupted import is completed by running it again. Its memory use is constant. A dry run
 * and a verification remember a hash of each new id and key.
 */
export const importHistory = async (
  given: OperatorContext,
  owner: ImportOwner,
  lines: AsyncIterable<ImportLine>,
  { purpose, ...options }: ImportOptions,
  { onRejected, onProgress }: ImportObserver,
): Promise<ImportSummary> => {
  const summary = noSummary();
  const read = purpose === "import" ? null : new Map();
  for await (const batch of inBatches(lines)) {
    const outcomes: Outcomes = new Map(
      batch.map((line) => [
        line,
        "problem" in line ? { outcome: "bad", reason: line.problem } : { outcome: "already_there" },
      ]),
    );
    const context = { ...given, owner, options, read, outcomes };
    const records = batch.filter((line) => "record" in line);
    await importRecords(context, records);
    const evidence = batch.filter((line) => "evidence" in line);
    await importEvidence(context, evidence);
    for (const [line, result] of outcomes) {
      countLine(summary, line, result);
      if ("reason" in result) {
        await onRejected({ line, ...result });
      } else if (purpose === "verification" && result.outcome !== "already_there") {
        await onRejected({ line, outcome: "missing", reason: MISSING[result.outcome] });
      }
    }
    onProgress(summary.lines);
  }
  return summary;
};
