import type { LineKind } from "./importedRecords.rules.ts";
import type { ImportLine, Rejection } from "./importLine.ts";

/** The outcomes of the lines of one kind. */
type KindSummary = {
  readonly new: number;
  /** Recorded already with the same content. */
  readonly known: number;
  /** Recorded already, and refunded further in the other system since. */
  readonly refunded: number;
  readonly conflict: number;
};

export type ImportSummary = {
  /** Lines read, without empty ones. */
  readonly lines: number;
  readonly kinds: Readonly<Record<LineKind, KindSummary>>;
  /** Lines that cannot be imported. */
  readonly bad: number;
};

/** Returns the kind of a line; null if it cannot be imported. */
const kindOf = (line: ImportLine): LineKind | null => {
  if ("evidence" in line) {
    return "evidence";
  }
  if ("balanceEntry" in line) {
    return "balance_entry";
  }
  return "record" in line ? line.record.kind : null;
};

const nothing = () => ({ new: 0, known: 0, refunded: 0, conflict: 0 });

/** Counts the outcomes of an import's lines. */
export type Report = {
  /** Counts lines, whatever their outcomes, and returns how many there were before. */
  readonly addLines: (count: number) => number;
  readonly add: (kind: LineKind, outcome: "new" | "known" | "refunded") => void;
  readonly reject: (
    line: ImportLine,
    outcome: Rejection["outcome"],
    reason: string,
  ) => Promise<void>;
  readonly summary: () => ImportSummary;
};

export const createReport = (
  onRejected: (rejection: Rejection) => void | Promise<void>,
): Report => {
  const counters = {
    lines: 0,
    kinds: {
      tree: nothing(),
      bottle: nothing(),
      donation: nothing(),
      evidence: nothing(),
      balance_entry: nothing(),
    } satisfies Record<LineKind, KindSummary>,
    bad: 0,
  };
  return {
    addLines: (count) => {
      const before = counters.lines;
      counters.lines += count;
      return before;
    },
    add: (kind, outcome) => {
      counters.kinds[kind][outcome] += 1;
    },
    reject: async (line, outcome, reason) => {
      const kind = kindOf(line);
      if (outcome === "conflict" && kind !== null) {
        counters.kinds[kind].conflict += 1;
      } else {
        counters.bad += 1;
      }
      await onRejected({ line, outcome, reason });
    },
    summary: () => structuredClone(counters),
  };
};
