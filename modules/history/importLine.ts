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
  /** Lines that cannot be imported. */
  bad: number;
  readonly kinds: Readonly<Record<LineKind, KindSummary>>;
};

/** Counts the outcomes of an import's lines. */
export type Report = {
  readonly summary: ImportSummary;
  readonly add: (line: ImportLine, outcome: LineOutcome) => Promise<void>;
};

const NOT_IMPORTED = {
  new: "it is not recorded here",
  refunded_since: "more of it is refunded in the file",
} as const;

const noLines = (): KindSummary => ({ new: 0, already_there: 0, refunded_since: 0, conflict: 0 });

/** Returns the kind of a line; null if it cannot be parsed. */
const kindOf = (line: ImportLine): LineKind | null => {
  if ("evidence" in line) {
    return "evidence";
  }
  return "record" in line ? line.record.kind : null;
};

/** @param isVerification whether lines that an import would change something for are reported, too */
export const createReport = (
  isVerification: boolean,
  onRejected: (rejection: Rejection) => void | Promise<void>,
): Report => {
  const summary = {
    lines: 0,
    bad: 0,
    kinds: { tree: noLines(), bottle: noLines(), donation: noLines(), evidence: noLines() },
  };
  return {
    summary,
    add: async (line, result) => {
      const { outcome } = result;
      const kind = kindOf(line);
      if (kind === null || outcome === "bad") {
        summary.bad += 1;
      } else {
        summary.kinds[kind][outcome] += 1;
      }
      if ("reason" in result) {
        await onRejected({ line, outcome: result.outcome, reason: result.reason });
      } else if (isVerification && result.outcome !== "already_there") {
        await onRejected({ line, outcome: "missing", reason: NOT_IMPORTED[result.outcome] });
      }
    },
  };
};
