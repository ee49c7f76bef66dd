import { hash } from "node:crypto";
import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { v7 } from "uuid";
import { contentErrorReason, isContentError } from "../../db/databaseErrors.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { fromMicroseconds, spreadTimes, toMicroseconds } from "../records/timestamps.rules.ts";
import { lockBalances, raiseLastRecordTime } from "../stores/stores.sql.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";
import { lockRecords, raiseRefunds } from "./furtherRefunds.sql.ts";
import { identitiesOf, lastingContentOf, refundedOf } from "./importedRecords.rules.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";
import { insertImported, listKnown, listTakenTimes } from "./importedRecords.sql.ts";
import type { ImportedEntry, InsertOptions, KnownRecord } from "./importedRecords.sql.ts";
import { conflict } from "./importLine.ts";
import type { LineOutcome, Outcomes, RecordLine } from "./importLine.ts";

/** A hash of a record without its id and refunds, and what is refunded of it. */
type State = { readonly content: string; readonly refunded: number };

/** What the steps of an import share for a batch. */
export type ImportContext = OperatorContext & {
  readonly owner: ImportOwner;
  readonly options: InsertOptions;
  readonly outcomes: Outcomes;
  /**
   * The unknown ids and keys that a dry run has read, by their hashes, with the record that had each first: an import finds
   * them in the database. Null for an import.
   */
  readonly read: Map<string, State> | null;
};

type Entry = ImportedEntry & {
  readonly identities: readonly string[];
  readonly line: RecordLine;
};
type Entries = readonly Entry[];

export const hashOf = (text: string): string => hash("sha256", text, "base64");

/**
 * Returns a line's record with its id here. The id is deterministic, which makes an import repeatable. It starts with the
 * timestamp, as the ids of new records do, so that the index grows at one end.
 */
const entryOf = ({ accountId, mode }: ImportOwner, line: RecordLine): Entry => {
  const { record } = line;
  const identities = identitiesOf(record);
  const random = hash("sha256", JSON.stringify([accountId, mode, identities[0]]), "buffer");
  const id = v7({ msecs: Date.parse(record.created_at), random });
  // Version 8 of RFC 9562: a custom format.
  return { id: `${id.slice(0, 14)}8${id.slice(15)}`, record, identities, line };
};

const decide = ({ furtherRefund, differences }: KnownRecord, isOne: boolean): LineOutcome => {
  if (!isOne) {
    return conflict("its id and its idempotency_key belong to two different records");
  }
  if (furtherRefund !== null) {
    return { outcome: "refunded_since" };
  }
  return differences.length === 0
    ? { outcome: "already_there" }
    : conflict(
        `a record with this id or idempotency_key is there with another ${differences.join(", ")}`,
      );
};

/** Decides about the entries whose ids or keys are known, and returns by how much each is refunded further. */
const decideKnown = async (
  db: CommonQueryMethods,
  owner: ImportOwner,
  table: RecordTable,
  entries: Entries,
) => {
  const matches = Map.groupBy(await listKnown(db, table, owner, entries), ({ place }) => place);
  return entries.flatMap((entry, place) => {
    const [known, ...others] = matches.get(place) ?? [];
    if (!known) {
      return [];
    }
    const decision = decide(known, others.length === 0);
    const count = decision.outcome === "refunded_since" ? (known.furtherRefund ?? 0) : 0;
    return [{ id: known.id, entry, decision, count }];
  });
};

/**
 * Applies refunds that another system made after its records were imported: totals and planted trees decrease. Nothing is
 * credited here, at the processor or to a store's balance, because the other system did that.
 * @returns the ids of the records that changed
 */
const applyFurtherRefunds = (
  { db, clock, actor, owner }: ImportContext,
  table: RecordTable,
  found: readonly { readonly id: string; readonly entry: Entry }[],
): Promise<ReadonlySet<string>> =>
  db.transaction(async (transaction) => {
    const ids = found.map(({ id }) => id);
    await lockRecords(transaction, table, ids);
    const entries = found.map(({ entry }) => entry);
    // A concurrent refund may have come first. Of several lines of a record, the one with the most refunds counts.
    const further = (await decideKnown(transaction, owner, table, entries))
      .filter(({ count }) => count > 0)
      .toSorted((one, other) => one.count - other.count);
    const refunded = [...new Map(further.map((each) => [each.id, each])).values()];
    if (table === "registration") {
      const trees = refunded.map(({ id, count }) => ({ registrationId: id, count }));
      await releaseRefundedTrees(transaction, trees);
    }
    await raiseRefunds(transaction, table, refunded);
    if (refunded.length > 0) {
      const refundedSince = refunded.map(({ id, count, entry: { record } }) =>
        record.kind === "donation"
          ? { id, kind: record.kind, amountCents: record.amount_cents }
          : { id, kind: record.kind, count },
      );
      await recordAction(transaction, actor, clock.now(), {
        action: "import.history",
        accountId: owner.accountId,
        details: { mode: owner.mode, refundedSince },
      });
    }
    return new Set(refunded.map(({ id }) => id));
  });

const settleKnown = async (context: ImportContext, table: RecordTable, entries: Entries) => {
  const { db, owner, outcomes, read } = context;
  const found = await decideKnown(db, owner, table, entries);
  found.forEach(({ entry, decision }) => outcomes.set(entry.line, decision));
  const further = found.filter(({ count }) => count > 0);
  if (!read && further.length > 0) {
    const changed = await applyFurtherRefunds(context, table, further);
    const outcome = conflict("the record changed in the meantime; import the line again");
    for (const { entry } of further.filter(({ id }) => !changed.has(id))) {
      outcomes.set(entry.line, outcome);
    }
  }
  const settled = new Set(found.map(({ entry }) => entry));
  return entries.filter((entry) => !settled.has(entry));
};

const separateRepetitions = (entries: Entries) => {
  const names = new Set<string>();
  return Object.groupBy(entries, ({ identities }) => {
    if (identities.some((name) => names.has(name))) {
      return "repeated";
    }
    identities.forEach((name) => names.add(name));
    return "first";
  });
};

/** Returns records with times that no other record of the store has, and locks the store's balance for them. */
const withUniqueTimes = async (
  transaction: DatabaseTransactionConnection,
  owner: ImportOwner,
  batch: readonly ImportedEntry[],
): Promise<readonly ImportedEntry[]> => {
  await lockBalances(transaction, [owner.accountId]);
  const given = batch.map(({ record }) => toMicroseconds(record.created_at));
  const taken = new Set<number>();
  let times: readonly string[];
  let found: readonly string[];
  do {
    times = spreadTimes(given, taken).map(fromMicroseconds);
    found = await listTakenTimes(transaction, owner, times);
    found.forEach((time) => taken.add(toMicroseconds(time)));
  } while (found.length > 0);
  await raiseLastRecordTime(transaction, owner.accountId, times);
  return batch.map(({ id, record }, place) => ({
    id,
    record: { ...record, created_at: times[place] ?? record.created_at },
  }));
};

const insert = ({ db, owner, options }: ImportContext, table: RecordTable, batch: Entries) =>
  owner.isStore
    ? db.transaction(async (transaction) => {
        const entries = await withUniqueTimes(transaction, owner, batch);
        return insertImported(transaction, table, owner, entries, options);
      })
    : insertImported(db, table, owner, batch, options);

/** Records entries. If the database rejects a batch, its halves are tried, until a bad line fails alone. */
const write = async (context: ImportContext, table: RecordTable, entries: Entries) => {
  if (entries.length === 0) {
    return;
  }
  const { outcomes } = context;
  const unsettled = await settleKnown(context, table, entries);
  const { first = [], repeated = [] } = separateRepetitions(unsettled);
  let inserted: ReadonlySet<string> = new Set();
  let reason = "its key is in use, and no record has its id or key";
  try {
    inserted = new Set(first.length === 0 ? [] : await insert(context, table, first));
  } catch (error) {
    if (!isContentError(error)) {
      throw error;
    }
    reason = contentErrorReason(error);
  }
  const rejected = first.filter(({ id }) => !inserted.has(id));
  first.forEach(({ line }) => outcomes.set(line, { outcome: "new" }));
  if (first.length === 1 && rejected.length === 1) {
    // Its key may have been used since the import looked for it.
    for (const { line } of await settleKnown(context, table, rejected)) {
      outcomes.set(line, { outcome: "bad", reason });
    }
  } else {
    const middle = Math.ceil(rejected.length / 2);
    await write(context, table, rejected.slice(0, middle));
    await write(context, table, rejected.slice(middle));
  }
  await write(context, table, repeated);
};

/** @param earlier the records that earlier lines have created with the ids and keys of an entry */
const decideRepeated = (
  earlier: readonly (State | undefined)[],
  { content, refunded }: State,
): LineOutcome => {
  if (earlier.every((each) => each === undefined)) {
    return { outcome: "new" };
  }
  if (earlier.every((each) => each?.content === content)) {
    const before = earlier.map((each) => each?.refunded ?? 0);
    if (before.every((each) => each === refunded)) {
      return { outcome: "already_there" };
    }
    if (before.every((each) => each < refunded)) {
      return { outcome: "refunded_since" };
    }
  }
  return conflict("an earlier line has this id or idempotency_key with other content");
};

/** Decides what `write` would do. */
const check = async (
  context: ImportContext,
  read: Map<string, State>,
  table: RecordTable,
  entries: Entries,
): Promise<void> => {
  for (const { record, identities, line } of await settleKnown(context, table, entries)) {
    const state = { content: hashOf(lastingContentOf(record)), refunded: refundedOf(record) };
    const names = identities.map(hashOf);
    const earlier = names.map((name) => read.get(name));
    const decision = decideRepeated(earlier, state);
    if (decision.outcome === "new") {
      // A line that is rejected names no record for later ones.
      names.forEach((name) => read.set(name, state));
    }
    context.outcomes.set(line, decision);
  }
};

export const importRecords = async (context: ImportContext, lines: readonly RecordLine[]) => {
  const entries = lines.map((line) => entryOf(context.owner, line));
  const tables = Map.groupBy(entries, ({ record }): RecordTable =>
    record.kind === "donation" ? "donation" : "registration",
  );
  for (const [table, own] of tables) {
    await (context.read ? check(context, context.read, table, own) : write(context, table, own));
  }
};
