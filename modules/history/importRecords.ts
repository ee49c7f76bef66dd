import type { OperatorContext } from "../accounts/context.ts";
import { contentErrorReason, isContentError } from "../../db/databaseErrors.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { applyFurtherRefunds } from "./applyFurtherRefunds.ts";
import { uuidOf } from "./assignIds.ts";
import type { IdentifiedEntry } from "./assignIds.ts";
import { lastingContentOf, refundedOf } from "./importedRecords.rules.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";
import { listKnown } from "./importedRecords.sql.ts";
import type { InsertOptions } from "./importedRecords.sql.ts";
import type { LineOutcome, Report } from "./importLine.ts";
import { rememberIdentities } from "./importLines.sql.ts";
import type { LineIdentity } from "./importLines.sql.ts";
import { insertRecords } from "./insertRecords.ts";

/** What the steps of an import share. */
export type ImportContext = OperatorContext & {
  readonly runId: string;
  readonly isDryRun: boolean;
  readonly owner: ImportOwner;
  readonly options: InsertOptions;
  readonly report: Report;
};

type Entries = readonly IdentifiedEntry[];

const conflict = (reason: string) => ({ outcome: "conflict", reason }) as const;

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

/** Applies what was refunded further. Of several states of a record, the latest counts. */
const refundFurther = async (
  context: ImportContext,
  entries: readonly { readonly id: string; readonly entry: IdentifiedEntry }[],
): Promise<void> => {
  const { report } = context;
  const latest = new Map<string, IdentifiedEntry>();
  for (const { id, entry } of entries) {
    const earlier = latest.get(id);
    if (earlier) {
      await report.add(entry.line, { outcome: "already_there" });
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
        ? { outcome: "refunded_since" }
        : conflict("the record changed in the meantime; import the line again"),
    );
  }
};

/** Decides about the entries whose ids or keys are known. Returns those that are not, and those that are recorded. */
const settleKnown = async (
  context: ImportContext,
  table: RecordTable,
  entries: Entries,
): Promise<{ readonly unknown: Entries; readonly recorded: Entries }> => {
  const { db, owner, report } = context;
  const known = Map.groupBy(await listKnown(db, table, owner, entries), ({ place }) => place);
  const unknown: IdentifiedEntry[] = [];
  const recorded: IdentifiedEntry[] = [];
  const further: { readonly id: string; readonly entry: IdentifiedEntry }[] = [];
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
      await report.add(entry.line, { outcome: "already_there" });
    } else {
      await report.add(entry.line, conflict(reason));
    }
  }
  await refundFurther(context, further);
  return { unknown, recorded };
};

/** Separates the entries that repeat the id or key of an earlier one. */
const separateRepetitions = (entries: Entries) => {
  const names = new Set<string>();
  return Object.groupBy(entries, ({ id, identities }) => {
    const own = [id, ...identities];
    if (own.some((name) => names.has(name))) {
      return "repeated";
    }
    own.forEach((name) => names.add(name));
    return "first";
  });
};

/** Records entries. If the database rejects a batch, its halves are tried, until a bad line fails alone. */
const write = async (
  context: ImportContext,
  table: RecordTable,
  entries: Entries,
): Promise<void> => {
  const { report } = context;
  const { unknown } =
    entries.length === 0 ? { unknown: [] } : await settleKnown(context, table, entries);
  const { first = [], repeated = [] } = separateRepetitions(unknown);
  if (first.length === 0) {
    return;
  }
  let inserted: ReadonlySet<string> = new Set();
  let reason = "its key is in use, and no record has its id or key";
  try {
    inserted = new Set(await insertRecords(context, table, first));
  } catch (error) {
    if (!isContentError(error)) {
      throw error;
    }
    reason = contentErrorReason(error);
  }
  for (const { line } of first.filter(({ id }) => inserted.has(id))) {
    await report.add(line, { outcome: "new" });
  }
  const rejected = first.filter(({ id }) => !inserted.has(id));
  if (first.length === 1 && rejected.length === 1) {
    // Its key may have been used since the import looked for it.
    for (const { line } of (await settleKnown(context, table, rejected)).unknown) {
      await report.add(line, { outcome: "bad", reason });
    }
  } else {
    const middle = Math.ceil(rejected.length / 2);
    for (const half of [rejected.slice(0, middle), rejected.slice(middle)]) {
      await write(context, table, half);
    }
  }
  await write(context, table, repeated);
};

type State = Pick<LineIdentity, "content" | "refunded">;

/** Returns what `write` would do with an unknown entry, after earlier lines with one of its identities. */
const outcomeAfter = (earlier: readonly State[], { content, refunded }: State): LineOutcome => {
  if (earlier.length === 0) {
    return { outcome: "new" };
  }
  const isEqual = earlier.every((each) => each.content === content);
  if (isEqual && earlier.every((each) => each.refunded === refunded)) {
    return { outcome: "already_there" };
  }
  return isEqual && earlier.every((each) => each.refunded < refunded)
    ? { outcome: "refunded_since" }
    : conflict("an earlier line has this id or idempotency_key with other content");
};

/** Counts what `write` would do. Identities are remembered, to find their repetitions in the files. */
const check = async (
  context: ImportContext,
  table: RecordTable,
  entries: Entries,
): Promise<void> => {
  const { db, runId, report } = context;
  const { unknown, recorded } = await settleKnown(context, table, entries);
  const isUnknown = new Set(unknown);
  const lines = [...recorded, ...unknown].map((entry) => ({
    entry,
    identities: entry.identities.map(uuidOf),
    state: {
      content: uuidOf(lastingContentOf(entry.record)),
      refunded: refundedOf(entry.record),
      line: entry.ordinal,
    },
  }));
  const held = await rememberIdentities(
    db,
    runId,
    lines.flatMap(({ identities, state }) =>
      identities.map((identity) => ({ identity, ...state })),
    ),
  );
  const holders = new Map(held.map((each) => [each.identity, each]));
  for (const { entry, identities, state } of lines) {
    const earlier = identities
      .map((identity) => holders.get(identity))
      .filter((each) => each !== undefined)
      .filter(({ line }) => line !== state.line);
    report.summary.records[entry.record.kind] += earlier.length === 0 ? 1 : 0;
    if (isUnknown.has(entry)) {
      await report.add(entry.line, outcomeAfter(earlier, state));
    }
  }
};

/** Imports entries, or decides about them in a dry run. */
export const importRecords = async (context: ImportContext, entries: Entries): Promise<void> => {
  const tables = Map.groupBy(entries, ({ record }): RecordTable =>
    record.kind === "donation" ? "donation" : "registration",
  );
  for (const [table, own] of tables) {
    await (context.isDryRun ? check : write)(context, table, own);
  }
};
