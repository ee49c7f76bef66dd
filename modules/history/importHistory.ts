import type { OperatorContext } from "../accounts/context.ts";
import { importEvidence } from "./importEvidence.ts";
import { createReport } from "./importLine.ts";
import type {
  EvidenceLine,
  ImportLine,
  ImportSummary,
  RecordLine,
  Rejection,
} from "./importLine.ts";
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

/** Statements of about 25 ms, so that what clients record hardly waits for one of them. */
const BATCH = 500;

/** Groups lines, so that one statement handles many. If the lines end with an error, those before it are yielded first. */
async function* inBatches(
  lines: AsyncIterable<ImportLine>,
): AsyncGenerator<readonly ImportLine[], void, void> {
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

const importBatch = async (context: ImportContext, batch: readonly ImportLine[]): Promise<void> => {
  const { report } = context;
  const records: RecordLine[] = [];
  const evidence: EvidenceLine[] = [];
  for (const line of batch) {
    report.summary.lines += 1;
    if ("problem" in line) {
      await report.add(line, { outcome: "bad", reason: line.problem });
    } else if ("evidence" in line) {
      evidence.push(line);
    } else {
      records.push(line);
    }
  }
  await importRecords(context, records);
  await importEvidence(context, evidence);
};

/**
 * Imports records that another system billed: they count in the totals and have no usage, so they are never billed here.
 * Nothing is imported twice, so an interrupted import is completed by running it again. Its memory use is constant. A dry run
 * and a verification remember a hash of each id and key.
 */
export const importHistory = async (
  given: OperatorContext,
  owner: ImportOwner,
  lines: AsyncIterable<ImportLine>,
  { purpose, ...options }: ImportOptions,
  { onRejected, onProgress }: ImportObserver,
): Promise<ImportSummary> => {
  const report = createReport(purpose === "verification", onRejected);
  const read = purpose === "import" ? null : new Map();
  const context = { ...given, owner, options, report, read };
  for await (const batch of inBatches(lines)) {
    await importBatch(context, batch);
    onProgress(report.summary);
  }
  return report.summary;
};
