import type { ImportedBalanceEntry } from "../../domain/history/importedBalance.ts";
import type { ImportedEvidence } from "../../domain/history/importedEvidence.ts";
import type { ImportedRecord } from "../../domain/history/importedRecords.ts";

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

/** A line of a record, and its place among all lines. */
export type RecordLine = Extract<ImportLine, { readonly record: ImportedRecord }> & {
  readonly ordinal: number;
};
