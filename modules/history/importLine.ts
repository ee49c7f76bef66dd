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
 * What an import does with a line. A record that is already there may have been refunded further in the other system since.
 * A conflict: another record has its id or key.
 */
export type LineOutcome =
  | { readonly outcome: "new" | "already_there" | "refunded_since" }
  | { readonly outcome: "conflict" | "bad"; readonly reason: string };

/** The outcomes of a batch, in the order of its lines. A line that changes nothing is already there. */
export type Outcomes = Map<ImportLine, LineOutcome>;

export const conflict = (reason: string): LineOutcome => ({ outcome: "conflict", reason });

/** Why a line was not imported. In a verification, a line is missing if an import would change something. */
export type Rejection = {
  readonly line: ImportLine;
  readonly outcome: "conflict" | "bad" | "missing";
  readonly reason: string;
};

type KindSummary = Record<Exclude<LineOutcome["outcome"], "bad">, number>;

export type ImportSummary = {
  /** Lines read, without empty ones. */
  lines: number;
  bad: number;
  readonly kinds: Readonly<Record<LineKind, KindSummary>>;
};

const noLines = (): KindSummary => ({ new: 0, already_there: 0, refunded_since: 0, conflict: 0 });

export const noSummary = (): ImportSummary => ({
  lines: 0,
  bad: 0,
  kinds: { tree: noLines(), bottle: noLines(), donation: noLines(), evidence: noLines() },
});

export const countLine = (summary: ImportSummary, line: ImportLine, { outcome }: LineOutcome) => {
  summary.lines += 1;
  if ("problem" in line || outcome === "bad") {
    summary.bad += 1;
  } else {
    summary.kinds["evidence" in line ? "evidence" : line.record.kind][outcome] += 1;
  }
};
