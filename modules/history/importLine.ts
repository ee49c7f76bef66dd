import type { ImportedBalanceEntry } from "./importedBalance.rules.ts";
import type { ImportedEvidence } from "./importedEvidence.rules.ts";
import type { ImportedRecord } from "./importedRecords.rules.ts";
import type { BulkPace } from "../../db/createBulkPace.ts";

/** A line of an import, numbered from 1: its record, or why it cannot be imported. */
export type ImportLine = {
  /** Where it was read. */
  readonly file: string;
  readonly number: number;
} & (
  | { readonly record: ImportedRecord; readonly text: string }
  | { readonly evidence: ImportedEvidence; readonly text: string }
  | { readonly balanceEntry: ImportedBalanceEntry; readonly text: string }
  | { readonly problem: string; readonly text: string | null }
);

/** Why a line was not imported. A conflict: another record has its id or key. */
export type Rejection = {
  readonly line: ImportLine;
  readonly outcome: "conflict" | "bad";
  readonly reason: string;
};

/** A line's place among all lines, from 1. */
type Numbered = { readonly ordinal: number };

export type RecordLine = Extract<ImportLine, { readonly record: ImportedRecord }> & Numbered;

export type EvidenceLine = Extract<ImportLine, { readonly evidence: ImportedEvidence }>;

type BalanceLine = Extract<ImportLine, { readonly balanceEntry: ImportedBalanceEntry }> & Numbered;

type BadLine = Extract<ImportLine, { readonly problem: string }>;

/** The outcome of a line that is not a record. */
export type LineOutcome =
  | { readonly outcome: "new" | "known" }
  | { readonly outcome: "conflict" | "bad"; readonly reason: string };

/**
 * Sorts lines by what they are.
 * @param before how many lines were read before these
 */
export const sortLines = (lines: readonly ImportLine[], before: number) => {
  const bad: BadLine[] = [];
  const records: RecordLine[] = [];
  const evidence: EvidenceLine[] = [];
  const balanceEntries: BalanceLine[] = [];
  for (const [index, line] of lines.entries()) {
    const ordinal = before + index + 1;
    if ("problem" in line) {
      bad.push(line);
    } else if ("evidence" in line) {
      evidence.push(line);
    } else if ("balanceEntry" in line) {
      balanceEntries.push({ ...line, ordinal });
    } else {
      records.push({ ...line, ordinal });
    }
  }
  return { bad, records, evidence, balanceEntries };
};

/** Two statements of about 50 ms, which are written at the same time unless bulk work yields. */
const BATCH = 2000;

/** The same in two steps of a few milliseconds, while bulk work yields to what clients record. */
const YIELDING_BATCH = 100;

/** Groups lines, so that one statement handles many. If the lines end with an error, those before it are yielded first. */
export async function* inBatches(
  lines: AsyncIterable<ImportLine>,
  { isYielding }: Pick<BulkPace, "isYielding">,
): AsyncGenerator<readonly ImportLine[], void, void> {
  let batch: ImportLine[] = [];
  let failure: { readonly error: unknown } | null = null;
  try {
    for await (const line of lines) {
      batch.push(line);
      if (batch.length >= (isYielding() ? YIELDING_BATCH : BATCH)) {
        yield batch;
        batch = [];
      }
    }
  } catch (error) {
    failure = { error };
  }
  if (batch.length > 0) {
    yield batch;
  }
  if (failure) {
    throw failure.error;
  }
}
