import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { insertImportedBalanceEntries, listKnownBalanceEntries } from "./importedBalance.sql.ts";
import type { KnownBalanceEntry } from "./importedBalance.sql.ts";
import { listIdentities, rememberIdentities } from "./importRuns.sql.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import { balanceAfter, differencesOf, entryIdentity } from "./importedBalance.rules.ts";
import type { ImportedBalanceEntry } from "./importedBalance.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { lockBalance } from "../stores/lockBalance.ts";
import { uuidOf } from "./assignIds.ts";
import type { LineOutcome } from "./importLine.ts";

type Accepted = ImportedBalanceEntry & { readonly balanceCents: number };

const referenceConflict = ({ reference }: ImportedBalanceEntry): LineOutcome => ({
  outcome: "conflict",
  reason: `another entry has the reference ${reference}`,
});

/** Decides about the lines in order. Entries that are new count for the lines after them. */
const decideAll = <Line extends { readonly balanceEntry: ImportedBalanceEntry }>(
  lines: readonly Line[],
  recorded: readonly KnownBalanceEntry[],
  balanceBefore: number,
) => {
  const byId = new Map(recorded.map((entry) => [entry.importedId, entry]));
  const references = new Set(recorded.map(({ reference }) => reference));
  const accepted: Accepted[] = [];
  const outcomes = new Map<Line, LineOutcome>();
  let balanceCents = balanceBefore;
  for (const line of lines) {
    const entry = line.balanceEntry;
    const known = byId.get(entry.importedId);
    const differences = known ? differencesOf(entry, known) : [];
    const after = balanceAfter(balanceCents, entry);
    if (differences.length > 0) {
      const reason = `an entry with this id is there with another ${differences.join(", ")}`;
      outcomes.set(line, { outcome: "conflict", reason });
    } else if (known) {
      outcomes.set(line, { outcome: "known" });
    } else if (entry.reference !== null && references.has(entry.reference)) {
      outcomes.set(line, referenceConflict(entry));
    } else if (typeof after === "string") {
      outcomes.set(line, { outcome: "bad", reason: after });
    } else {
      balanceCents = after;
      accepted.push({ ...entry, balanceCents });
      byId.set(entry.importedId, entry);
      references.add(entry.reference);
      outcomes.set(line, { outcome: "new" });
    }
  }
  return { outcomes, accepted, balanceCents };
};

type Ledger = {
  /** Imports lines, or decides about them in a dry run, and returns their outcomes. */
  readonly add: <Line extends { readonly balanceEntry: ImportedBalanceEntry }>(
    connection: CommonQueryMethods,
    lines: readonly Line[],
  ) => Promise<ReadonlyMap<Line, LineOutcome>>;
};

/** Returns what a dry run remembers of an entry, to find its repetitions in later batches. */
const traitsOf = (entry: ImportedBalanceEntry) => ({
  id: uuidOf(entryIdentity(entry)),
  // Without what `differencesOf` does not compare.
  content: uuidOf(
    JSON.stringify(["balance_entry", "content", { ...entry, balanceCents: null, note: "" }]),
  ),
  reference:
    entry.reference === null
      ? null
      : uuidOf(JSON.stringify(["balance_entry", "reference", entry.reference])),
});

const hashesOf = (entry: ImportedBalanceEntry): readonly string[] =>
  Object.values(traitsOf(entry)).filter((hash) => hash !== null);

/**
 * Imports the ledger of a store from another system, entry by entry: the balance changes with them. An entry is imported
 * once, by its id.
 */
export const createLedgerImport = (
  {
    clock,
    actor,
    runId,
    isDryRun,
  }: {
    readonly clock: Clock;
    readonly actor: Actor;
    readonly runId: string;
    readonly isDryRun: boolean;
  },
  storeId: string,
): Ledger => {
  /** The balance that a dry run would have reached so far. */
  let imaginedCents: number | null = null;

  /** Decides about the lines that repeat an entry which a dry run accepted in an earlier batch. */
  const settleRepeated = async <Line extends { readonly balanceEntry: ImportedBalanceEntry }>(
    transaction: DatabaseTransactionConnection,
    lines: readonly Line[],
  ): Promise<ReadonlyMap<Line, LineOutcome>> => {
    const hashes = lines.flatMap(({ balanceEntry }) => hashesOf(balanceEntry));
    const earlier = new Set(await listIdentities(transaction, runId, hashes));
    const outcomes = new Map<Line, LineOutcome>();
    for (const line of lines) {
      const { id, content, reference } = traitsOf(line.balanceEntry);
      if (earlier.has(content)) {
        outcomes.set(line, { outcome: "known" });
      } else if (earlier.has(id)) {
        const reason = "an earlier line has this id with other content";
        outcomes.set(line, { outcome: "conflict", reason });
      } else if (reference !== null && earlier.has(reference)) {
        outcomes.set(line, referenceConflict(line.balanceEntry));
      }
    }
    return outcomes;
  };

  return {
    add: async (connection, lines) => {
      if (lines.length === 0) {
        return new Map();
      }
      const entries = lines.map(({ balanceEntry }) => balanceEntry);
      return connection.transaction(async (transaction) => {
        const balance = await lockBalance(transaction, storeId);
        const known = await listKnownBalanceEntries(transaction, storeId, entries);
        const repeated = isDryRun ? await settleRepeated(transaction, lines) : new Map();
        const { outcomes, accepted, balanceCents } = decideAll(
          lines.filter((line) => !repeated.has(line)),
          known,
          imaginedCents ?? balance.balanceCents,
        );
        if (isDryRun) {
          const hashes = accepted.flatMap(hashesOf);
          await rememberIdentities(
            transaction,
            runId,
            hashes.map((hash) => ({ identity: hash, content: hash, refunded: 0, holder: 0 })),
          );
          imaginedCents = balanceCents;
        } else if (accepted.length > 0) {
          await insertImportedBalanceEntries(transaction, storeId, accepted);
          await recordAction(transaction, actor, clock.now(), {
            action: "import.history",
            accountId: storeId,
            details: { balanceEntries: accepted.length, balanceCents },
          });
        }
        return new Map([...repeated, ...outcomes]);
      });
    },
  };
};
