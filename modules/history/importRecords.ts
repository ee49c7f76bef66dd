import type { OperatorContext } from "../accounts/context.ts";
import { contentErrorReason, isContentError } from "../../db/databaseErrors.ts";
import { applyFurtherRefunds } from "./applyFurtherRefunds.ts";
import { uuidOf } from "./assignIds.ts";
import type { IdentifiedEntry } from "./assignIds.ts";
import type { Report } from "./createReport.ts";
import { lastingContentOf, refundedOf } from "./importedRecords.rules.ts";
import { rememberIdentities } from "./importLines.sql.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";
import type { Writer } from "./recordWriters.ts";

/** What the steps of an import share. */
export type ImportContext = OperatorContext & {
  readonly runId: string;
  readonly isDryRun: boolean;
  readonly owner: ImportOwner;
  readonly report: Report;
};

type Entry = IdentifiedEntry;

const conflict = (reason: string) => ({ outcome: "conflict", reason }) as const;
const bad = (reason: string) => ({ outcome: "bad", reason }) as const;

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

/** Applies what was refunded further. Of several states of a record, the latest counts. */
const refundFurther = async (
  context: ImportContext,
  entries: readonly { readonly id: string; readonly entry: Entry }[],
): Promise<void> => {
  const { report } = context;
  const latest = new Map<string, Entry>();
  for (const { id, entry } of entries) {
    const earlier = latest.get(id);
    if (earlier) {
      await report.add(entry.line, { outcome: "known" });
    }
    if (!earlier || refundedOf(earlier.record) < refundedOf(entry.record)) {
      latest.set(id, entry);
    }
  }
  const changed = context.isDryRun
    ? latest
    : await applyFurtherRefunds(
        context,
        [...latest].map(([id, { record }]) => ({ id, record })),
      );
  for (const [id, { line }] of latest) {
    await report.add(
      line,
      changed.has(id)
        ? { outcome: "refunded" }
        : conflict("the record changed in the meantime; import the line again"),
    );
  }
};

/** Decides about the entries whose ids or keys are known. Returns those that are not, and those that are recorded. */
const settleKnown = async (
  context: ImportContext,
  { listKnown }: Writer,
  entries: readonly Entry[],
): Promise<{ readonly unknown: readonly Entry[]; readonly recorded: readonly Entry[] }> => {
  const { db, report } = context;
  const known = Map.groupBy(await listKnown(db, entries), ({ place }) => place);
  const unknown: Entry[] = [];
  const recorded: Entry[] = [];
  const further: { readonly id: string; readonly entry: Entry }[] = [];
  for (const [place, entry] of entries.entries()) {
    const matches = known.get(place);
    const [match, ...others] = matches ?? [];
    const reason = matches && conflictOf(matches.map(({ differences }) => differences));
    if (match?.hasFurtherRefund === true && others.length === 0) {
      recorded.push(entry);
      further.push({ id: match.id, entry });
    } else if (reason === undefined) {
      unknown.push(entry);
    } else if (reason === null) {
      recorded.push(entry);
      await report.add(entry.line, { outcome: "known" });
    } else {
      await report.add(entry.line, conflict(reason));
    }
  }
  await refundFurther(context, further);
  return { unknown, recorded };
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
      for (const { line } of (await settleKnown(context, writer, entries)).unknown) {
        await report.add(line, bad(contentErrorReason(error)));
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
      await report.add(entry.line, { outcome: "new" });
    } else {
      skipped.push(entry);
    }
  }
  if (skipped.length > 0) {
    const { unknown } = await settleKnown(context, writer, skipped);
    if (unknown.length < entries.length) {
      // The earlier line with the same id or key was not inserted either.
      await write(context, writer, unknown);
      return;
    }
    for (const { line } of unknown) {
      await report.add(line, bad("its key is in use, and no record has its id or key"));
    }
  }
};

/** Counts what `write` would do. Identities are remembered, to find their repetitions in the files. */
const check = async (
  context: ImportContext,
  writer: Writer,
  entries: readonly Entry[],
): Promise<void> => {
  const { db, runId, report } = context;
  const { unknown, recorded } = await settleKnown(context, writer, entries);
  const isUnknown = new Set(unknown);
  const states = [...recorded, ...unknown].map((entry) => ({
    entry,
    content: uuidOf(lastingContentOf(entry.record)),
    refunded: refundedOf(entry.record),
    identities: entry.identities.map(uuidOf),
  }));
  const held = await rememberIdentities(
    db,
    runId,
    states.flatMap(({ entry, identities, ...state }) =>
      identities.map((identity) => ({ ...state, identity, line: entry.ordinal })),
    ),
  );
  const holders = new Map(held.map((each) => [each.identity, each]));
  for (const { entry, content, refunded, identities } of states) {
    const { record, line } = entry;
    const earlier = identities
      .map((identity) => holders.get(identity))
      .filter((each) => each !== undefined && each.line !== entry.ordinal);
    if (earlier.length === 0) {
      report.summary.kinds[record.kind].records += 1;
    }
    if (!isUnknown.has(entry)) {
      continue;
    }
    const isEqual = earlier.every((each) => each?.content === content);
    if (earlier.length === 0) {
      await report.add(line, { outcome: "new" });
    } else if (isEqual && earlier.every((each) => each?.refunded === refunded)) {
      await report.add(line, { outcome: "known" });
    } else if (isEqual && earlier.every((each) => (each?.refunded ?? 0) < refunded)) {
      await report.add(line, { outcome: "refunded" });
    } else {
      await report.add(
        line,
        conflict("an earlier line has this id or idempotency_key with other content"),
      );
    }
  }
};

/** Imports entries of a writer's kinds, or decides about them in a dry run. */
export const importRecords = (
  context: ImportContext,
  writer: Writer,
  entries: readonly Entry[],
): Promise<void> => (context.isDryRun ? check : write)(context, writer, entries);
