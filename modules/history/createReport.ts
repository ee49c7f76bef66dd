import type { LineKind } from "./importedRecords.rules.ts";
import { kindOf } from "./importLine.ts";
import type { ImportLine, LineOutcome, Rejection } from "./importLine.ts";

/** The outcomes of the lines of one kind. */
type KindSummary = {
  /** In a verification, lines that are not recorded. */
  new: number;
  /** Recorded already with the same content. */
  known: number;
  /** Recorded already, and refunded further in the other system since. */
  refunded: number;
  conflict: number;
  /** Records of the files. Lines with the same id or key are one. Known of a dry run only. */
  records: number;
};

export type ImportSummary = {
  /** Lines read, without empty ones. */
  lines: number;
  readonly kinds: Readonly<Record<LineKind, Readonly<KindSummary>>>;
  /** Lines that cannot be imported. */
  bad: number;
};

/** Counts the outcomes of an import's lines. */
export type Report = {
  readonly summary: ImportSummary & { readonly kinds: Record<LineKind, KindSummary> };
  readonly add: (line: ImportLine, outcome: LineOutcome) => Promise<void>;
};

const NOT_IMPORTED = {
  new: "it is not recorded here",
  refunded: "more of it is refunded in the file",
} as const;

const summarize = (): KindSummary => ({ new: 0, known: 0, refunded: 0, conflict: 0, records: 0 });

/** @param isVerification whether lines that an import would change something for are reported, too */
export const createReport = (
  isVerification: boolean,
  onRejected: (rejection: Rejection) => void | Promise<void>,
): Report => {
  const summary = {
    lines: 0,
    kinds: {
      tree: summarize(),
      bottle: summarize(),
      donation: summarize(),
      evidence: summarize(),
    } satisfies Record<LineKind, KindSummary>,
    bad: 0,
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
      } else if (isVerification && result.outcome !== "known") {
        await onRejected({ line, outcome: "missing", reason: NOT_IMPORTED[result.outcome] });
      }
    },
  };
};
