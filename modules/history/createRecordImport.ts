import type { ImportedEntry } from "./importedEntries.sql.ts";
import { rememberIdentities } from "./importRuns.sql.ts";
import { contentErrorReason, isContentError } from "../../db/databaseErrors.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { lastingContentOf, refundedOf } from "./importedRecords.rules.ts";
import type { ImportedRecord } from "./importedRecords.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { applyFurtherRefunds } from "./applyFurtherRefunds.ts";
import { uuidOf } from "./assignIds.ts";
import type { Report } from "./createReport.ts";
import type { Writer } from "./createWriters.ts";
import type { RecordLine } from "./importLine.ts";

type Entry = ImportedEntry<ImportedRecord> & {
  readonly identities: readonly string[];
  readonly line: RecordLine;
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

const namesOf = ({ id, identities }: Entry): readonly string[] => [id, ...identities];

type ImportRun = OperatorContext & {
  readonly runId: string;
  readonly isDryRun: boolean;
};

type ImportContext = ImportRun & {
  readonly owner: AccountMode;
  readonly report: Report;
};

/** Applies what was refunded further. Of several states of a record, the latest counts. */
const refundFurther = async (
  context: ImportContext,
  entries: readonly { readonly id: string; readonly entry: Entry }[],
): Promise<void> => {
  const { db, isDryRun, owner, report } = context;
  const latest = new Map<string, Entry>();
  for (const { id, entry } of entries) {
    const { kind } = entry.record;
    const earlier = latest.get(id);
    if (earlier) {
      report.add(kind, "known");
    }
    if (!earlier || refundedOf(earlier.record) < refundedOf(entry.record)) {
      latest.set(id, entry);
    }
  }
  const changed = isDryRun
    ? latest
    : await applyFurtherRefunds(
        context,
        db,
        owner,
        [...latest].map(([id, { record }]) => ({ id, record })),
      );
  for (const [id, entry] of latest) {
    if (changed.has(id)) {
      report.add(entry.record.kind, "refunded");
    } else {
      await report.reject(
        entry.line,
        "conflict",
        "the record changed in the meantime; import the line again",
      );
    }
  }
};

/** Decides about the entries whose ids or keys are known. Returns those that are not. */
const settleKnown = async (
  context: ImportContext,
  { listKnown }: Writer,
  entries: readonly Entry[],
): Promise<readonly Entry[]> => {
  const { db, report } = context;
  const known = Map.groupBy(await listKnown(db, entries), ({ place }) => place);
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
      report.add(entry.record.kind, "known");
    } else {
      await report.reject(entry.line, "conflict", conflict);
    }
  }
  await refundFurther(context, further);
  return unknown;
};

/** If the database rejects a batch, its halves are tried, until a bad line fails alone. */
const write = async (
  context: ImportContext,
  writer: Writer,
  entries: readonly Entry[],
): Promise<void> => {
  const { db, report } = context;
  if (entries.length === 0) {
    return;
  }
  let inserted: Set<string>;
  try {
    inserted = new Set(await writer.insert(db, withoutRepetitions(entries)));
  } catch (error) {
    if (!isContentError(error)) {
      throw error;
    }
    if (entries.length === 1) {
      // Its key may have been used since the import looked for it.
      for (const { line } of await settleKnown(context, writer, entries)) {
        await report.reject(line, "bad", contentErrorReason(error));
      }
      return;
    }
    const middle = Math.ceil(entries.length / 2);
    await write(context, writer, entries.slice(0, middle));
    await write(context, writer, entries.slice(middle));
    return;
  }
  const skipped: Entry[] = [];
  for (const entry of entries) {
    // Of several lines with one id or key, only the first was inserted.
    if (inserted.delete(entry.id)) {
      report.add(entry.record.kind, "new");
    } else {
      skipped.push(entry);
    }
  }
  if (skipped.length > 0) {
    const unknown = await settleKnown(context, writer, skipped);
    if (unknown.length < entries.length) {
      // The earlier line with the same id or key was not inserted either.
      await write(context, writer, unknown);
      return;
    }
    // The other record was deleted in between, which nothing does.
    for (const { line } of unknown) {
      await report.reject(line, "bad", "it was not recorded, and no record has its id or key");
    }
  }
};

/** Counts what `write` would do. What is new is remembered, to find its repetitions in the files. */
const check = async (
  context: ImportContext,
  writer: Writer,
  entries: readonly Entry[],
): Promise<void> => {
  const { db, runId, report } = context;
  const unknown = (await settleKnown(context, writer, entries)).map((entry) => ({
    entry,
    content: uuidOf(lastingContentOf(entry.record)),
    refunded: refundedOf(entry.record),
    identities: entry.identities.map(uuidOf),
  }));
  const held = await rememberIdentities(
    db,
    runId,
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
    const { kind } = entry.record;
    if (earlier.length === 0) {
      report.add(kind, "new");
    } else if (earlier.every((each) => each.content === content && each.refunded === refunded)) {
      report.add(kind, "known");
    } else if (earlier.every((each) => each.content === content && each.refunded < refunded)) {
      report.add(kind, "refunded");
    } else {
      await report.reject(
        entry.line,
        "conflict",
        "an earlier line has this id or idempotency_key with other content",
      );
    }
  }
};

/**
 * Writes two halves at the same time, because one process of PostgreSQL would take most of the time of an import. Of
 * lines with the same id or key the first one counts, so halves that share one are written in order.
 */
const writeHalves = async (
  context: ImportContext,
  writer: Writer,
  entries: readonly Entry[],
): Promise<void> => {
  const middle = Math.ceil(entries.length / 2);
  const [first, second] = [entries.slice(0, middle), entries.slice(middle)];
  const names = new Set(first.flatMap(namesOf));
  if (writer.isOrdered || second.some((entry) => namesOf(entry).some((name) => names.has(name)))) {
    await write(context, writer, first);
    await write(context, writer, second);
    return;
  }
  const results = await Promise.allSettled([
    write(context, writer, first),
    write(context, writer, second),
  ]);
  const failure = results.find((result) => result.status === "rejected");
  if (failure) {
    throw failure.reason;
  }
};

/**
 * Imports records, or decides about them in a dry run.
 * @returns a function that imports entries of a writer's kinds
 */
export const createRecordImport = (
  deps: ImportRun,
  owner: AccountMode,
  report: Report,
): ((writer: Writer, entries: readonly Entry[]) => Promise<void>) => {
  const context = { ...deps, owner, report };
  const importEntries = deps.isDryRun ? check : writeHalves;
  return (writer, entries) => importEntries(context, writer, entries);
};
