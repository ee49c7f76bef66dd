import type { CommonQueryMethods, DatabasePool } from "slonik";
import { createSeen, dropSeen, rememberIdentities } from "../../db/history/importedEntries.ts";
import type { ImportedEntry } from "../../db/history/importedEntries.ts";
import { isContentError } from "../../db/isContentError.ts";
import type { Actor } from "../../domain/accounts/audit.ts";
import type { Clock } from "../../domain/clock.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { DomainError } from "../../domain/errors.ts";
import { lastingContentOf, refundedOf } from "../../domain/history/importedRecords.ts";
import type { ImportedBalanceEntry } from "../../domain/history/importedBalance.ts";
import type { ImportedEvidence } from "../../domain/history/importedEvidence.ts";
import type { ImportedRecord, LineKind } from "../../domain/history/importedRecords.ts";
import { applyFurtherRefunds } from "./applyFurtherRefunds.ts";
import { assignIds, uuidOf } from "./assignIds.ts";
import { createLedgerImport } from "./createLedgerImport.ts";
import { createWriters } from "./createWriters.ts";
import { importEvidence } from "./importEvidence.ts";
import type { Writer, WriterOptions } from "./createWriters.ts";
import { inBatches } from "./inBatches.ts";

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

export type ImportOptions = WriterOptions & {
  /** Reports what an import would do, and changes nothing. */
  readonly isDryRun: boolean;
};

export type ImportObserver = {
  /** Called for each line that is not imported. */
  readonly onRejected: (rejection: Rejection) => void | Promise<void>;
  /** Called after each batch. */
  readonly onProgress: (summary: ImportSummary) => void;
};

/** A valid line, and its place among all lines. */
type RecordLine = Extract<ImportLine, { readonly record: ImportedRecord }> & {
  readonly ordinal: number;
};
type Entry = ImportedEntry<ImportedRecord> & {
  readonly identities: readonly string[];
  readonly line: RecordLine;
};

type EvidenceLine = Extract<ImportLine, { readonly evidence: ImportedEvidence }>;
type BalanceLine = Extract<ImportLine, { readonly balanceEntry: ImportedBalanceEntry }>;

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

/** Lets the next batch be read while one is written. */
async function* readAhead<Item>(items: AsyncGenerator<Item, void, void>): AsyncGenerator<Item> {
  let next = items.next();
  for (;;) {
    const { done, value } = await next;
    if (done === true) {
      return;
    }
    next = items.next();
    // If the consumer fails, nobody awaits the item that is being read.
    next.catch(() => undefined);
    yield value;
  }
}

const nothing = () => ({ new: 0, known: 0, refunded: 0, conflict: 0 });

const createCounters = () => {
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
  return { counters, summary: (): ImportSummary => structuredClone(counters) };
};

/** Returns why an entry conflicts with the records that have its id or key; null if it is one of them. */
const conflictOf = (differences: readonly (readonly string[])[]): string | null => {
  const [first = [], ...others] = differences;
  if (others.length > 0) {
    return "its id and its idempotency_key belong to two different records";
  }
  return first.length === 0
    ? null
    : `a record with this id or idempotency_key is there with another ${first.join(", ")}`;
};

/** Returns the entries without those that repeat the id or key of an earlier one: the first line has it. */
const withoutRepetitions = (entries: readonly Entry[]): readonly Entry[] => {
  const names = new Set<string>();
  return entries.filter(({ id, identities }) => {
    const own = [id, ...identities];
    const isFirst = own.every((name) => !names.has(name));
    if (isFirst) {
      for (const name of own) {
        names.add(name);
      }
    }
    return isFirst;
  });
};

/**
 * Imports records that another system billed: they count in the totals and have no usage, so they are never billed here.
 * Nothing is imported twice, so an interrupted import is completed by running it again. Memory use is constant: lines
 * are read as fast as they are written.
 */
export const importHistory = (
  deps: { readonly db: DatabasePool; readonly clock: Clock; readonly actor: Actor },
  owner: AccountMode,
  lines: AsyncIterable<ImportLine>,
  options: ImportOptions,
  { onRejected, onProgress }: ImportObserver,
): Promise<ImportSummary> => {
  const { db, clock } = deps;
  const { counters, summary } = createCounters();
  const writers = createWriters(owner, options, clock);
  const ledger = createLedgerImport({ ...deps, isDryRun: options.isDryRun }, owner.accountId);

  const reject = async (
    line: ImportLine,
    outcome: Rejection["outcome"],
    reason: string,
  ): Promise<void> => {
    const kind = kindOf(line);
    if (outcome === "conflict" && kind !== null) {
      counters.kinds[kind].conflict += 1;
    } else {
      counters.bad += 1;
    }
    await onRejected({ line, outcome, reason });
  };

  /** Applies what was refunded further. Of several states of a record, the latest counts. */
  const refundFurther = async (
    connection: CommonQueryMethods,
    entries: readonly { readonly id: string; readonly entry: Entry }[],
  ): Promise<void> => {
    const latest = new Map<string, Entry>();
    for (const { id, entry } of entries) {
      const { kind } = entry.record;
      const earlier = latest.get(id);
      if (earlier) {
        counters.kinds[kind].known += 1;
      }
      if (!earlier || refundedOf(earlier.record) < refundedOf(entry.record)) {
        latest.set(id, entry);
      }
    }
    const changed = options.isDryRun
      ? latest
      : await applyFurtherRefunds(
          deps,
          connection,
          owner,
          [...latest].map(([id, { record }]) => ({ id, record })),
        );
    for (const [id, entry] of latest) {
      if (changed.has(id)) {
        counters.kinds[entry.record.kind].refunded += 1;
      } else {
        await reject(entry.line, "conflict", "the record changed meanwhile; import the line again");
      }
    }
  };

  /** Decides about the entries whose ids or keys are known. Returns those that are not. */
  const settleKnown = async (
    connection: CommonQueryMethods,
    { listKnown }: Writer,
    entries: readonly Entry[],
  ): Promise<readonly Entry[]> => {
    const known = Map.groupBy(await listKnown(connection, entries), ({ place }) => place);
    const unknown: Entry[] = [];
    const further: { readonly id: string; readonly entry: Entry }[] = [];
    for (const [place, entry] of entries.entries()) {
      const matches = known.get(place);
      const [match, ...others] = matches ?? [];
      const conflict = matches && conflictOf(matches.map(({ differences }) => differences));
      if (match?.hasFurtherRefund === true && others.length === 0) {
        further.push({ id: match.id, entry });
      } else if (conflict === undefined) {
        unknown.push(entry);
      } else if (conflict === null) {
        counters.kinds[entry.record.kind].known += 1;
      } else {
        await reject(entry.line, "conflict", conflict);
      }
    }
    await refundFurther(connection, further);
    return unknown;
  };

  /** If the database rejects a batch, its halves are tried, until a bad line fails alone. */
  const write = async (
    connection: CommonQueryMethods,
    writer: Writer,
    entries: readonly Entry[],
  ): Promise<void> => {
    const [first] = entries;
    if (first === undefined) {
      return;
    }
    let inserted: Set<string>;
    try {
      inserted = new Set(await writer.insert(connection, withoutRepetitions(entries)));
    } catch (error) {
      if (!isContentError(error)) {
        throw error;
      }
      if (entries.length === 1) {
        const reason =
          error instanceof DomainError ? error.message : "the database cannot store it";
        await reject(first.line, "bad", reason);
        return;
      }
      const middle = Math.ceil(entries.length / 2);
      await write(connection, writer, entries.slice(0, middle));
      await write(connection, writer, entries.slice(middle));
      return;
    }
    const skipped: Entry[] = [];
    for (const entry of entries) {
      // Of several lines with one id or key, only the first was inserted.
      if (inserted.delete(entry.id)) {
        counters.kinds[entry.record.kind].new += 1;
      } else {
        skipped.push(entry);
      }
    }
    if (skipped.length > 0) {
      const unknown = await settleKnown(connection, writer, skipped);
      if (unknown.length < entries.length) {
        // The earlier line with the same id or key was not inserted either.
        await write(connection, writer, unknown);
        return;
      }
      // The other record was deleted in between, which nothing does.
      for (const { line } of unknown) {
        await reject(line, "bad", "it was not recorded, and no record has its id or key");
      }
    }
  };

  /** Counts what `write` would do. What is new is remembered, to find its repetitions in the files. */
  const check = async (
    connection: CommonQueryMethods,
    writer: Writer,
    entries: readonly Entry[],
  ): Promise<void> => {
    const unknown = (await settleKnown(connection, writer, entries)).map((entry) => ({
      entry,
      content: uuidOf(lastingContentOf(entry.record)),
      refunded: refundedOf(entry.record),
      identities: entry.identities.map(uuidOf),
    }));
    const held = await rememberIdentities(
      connection,
      unknown.flatMap(({ entry, content, refunded, identities }) =>
        identities.map((identity) => ({ identity, content, refunded, holder: entry.line.ordinal })),
      ),
    );
    const holders = new Map(held.map((each) => [each.identity, each]));
    for (const { entry, content, refunded, identities } of unknown) {
      const earlier = identities
        .map((identity) => holders.get(identity))
        .filter((each) => each !== undefined)
        .filter(({ holder }) => holder !== entry.line.ordinal);
      const counts = counters.kinds[entry.record.kind];
      if (earlier.length === 0) {
        counts.new += 1;
      } else if (earlier.every((each) => each.content === content && each.refunded === refunded)) {
        counts.known += 1;
      } else if (earlier.every((each) => each.content === content && each.refunded < refunded)) {
        counts.refunded += 1;
      } else {
        await reject(
          entry.line,
          "conflict",
          "an earlier line has this id or idempotency_key with other content",
        );
      }
    }
  };

  /** Counts what became of lines that are no records. */
  const settle = async <Line extends ImportLine>(
    kind: LineKind,
    outcomes: ReadonlyMap<
      Line,
      | { readonly outcome: "new" | "known" }
      | { readonly outcome: "conflict" | "bad"; readonly reason: string }
    >,
  ): Promise<void> => {
    for (const [line, result] of outcomes) {
      if ("reason" in result) {
        await reject(line, result.outcome, result.reason);
      } else {
        counters.kinds[kind][result.outcome] += 1;
      }
    }
  };

  return db.connect(async (seen) => {
    await createSeen(seen);
    // What is written is committed batch by batch; a dry run also reads what it has seen.
    const connection = options.isDryRun ? seen : db;
    for await (const batch of readAhead(inBatches(lines))) {
      const accepted: RecordLine[] = [];
      const evidence: EvidenceLine[] = [];
      const balanceEntries: BalanceLine[] = [];
      for (const line of batch) {
        counters.lines += 1;
        if ("problem" in line) {
          await reject(line, "bad", line.problem);
        } else if ("evidence" in line) {
          evidence.push(line);
        } else if ("balanceEntry" in line) {
          balanceEntries.push(line);
        } else {
          accepted.push({ ...line, ordinal: counters.lines });
        }
      }
      const entries = await assignIds(seen, owner, accepted);
      for (const writer of writers) {
        const own = entries.filter(({ record }) => writer.kinds.includes(record.kind));
        if (own.length > 0) {
          await (options.isDryRun ? check : write)(connection, writer, own);
        }
      }
      await settle(
        "evidence",
        await importEvidence({ clock, isDryRun: options.isDryRun }, connection, owner, evidence),
      );
      await settle("balance_entry", await ledger.add(db, balanceEntries));
      onProgress(summary());
    }
    // Not in a finally block: after an error the pool closes the connection, and a second error would hide the first.
    await dropSeen(seen);
    return summary();
  });
};
