import type { ImportedEvidence } from "./importedEvidence.rules.ts";
import type { ImportedRecord, LineKind } from "./importedRecords.rules.ts";

type Place = {
  readonly file: string;
  /** The line's number in its file, from 1. */
  readonly number: number;
};

export type RecordLine = Place & { readonly record: ImportedRecord; readonly text: string };
export type EvidenceLine = Place & { readonly evidence: ImportedEvidence; readonly text: string };
type BadLine = Place & { readonly problem: string; readonly text: string | null };

/** A line of an import: its record, the evidence of a tree, or why it cannot be imported. */
export type ImportLine = RecordLine | EvidenceLine | BadLine;

/**
 * Why a line was not imported. A conflict: another record has its id or key. In a verification, a line is missing if an
 * import would change something.
 */
export type Rejection = {
  readonly line: ImportLine;
  readonly outcome: "conflict" | "bad" | "missing";
  readonly reason: string;
};

/** What an import does with a line. */
export type LineOutcome =
  | { readonly outcome: "new" | "known" | "refunded" }
  | { readonly outcome: "conflict" | "bad"; readonly reason: string };

/** Returns the kind of a line; null if it cannot be imported. */
export const kindOf = (line: ImportLine): LineKind | null => {
  if ("evidence" in line) {
    return "evidence";
  }
  return "record" in line ? line.record.kind : null;
};
