import type { CommonQueryMethods } from "slonik";
import {
  insertImportedBalanceEntries,
  listKnownBalanceEntries,
} from "../../db/history/importedBalance.ts";
import type { KnownBalanceEntry } from "../../db/history/importedBalance.ts";
import type { Actor } from "../../domain/accounts/audit.ts";
import type { Clock } from "../../domain/clock.ts";
import { balanceAfter, differencesOf } from "../../domain/history/importedBalance.ts";
import type { ImportedBalanceEntry } from "../../domain/history/importedBalance.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { lockBalance } from "../stores/balance/lockBalance.ts";
import type { LineOutcome } from "./importLine.ts";

type Accepted = ImportedBalanceEntry & { readonly balanceCents: number };

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
      const reason = `another entry has the reference ${entry.reference}`;
      outcomes.set(line, { outcome: "conflict", reason });
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

/**
 * Imports the ledger of a store from another system, entry by entry: the balance changes with them. An entry is imported
 * once, by its id.
 */
export const createLedgerImport = (
  {
    clock,
    actor,
    isDryRun,
  }: { readonly clock: Clock; readonly actor: Actor; readonly isDryRun: boolean },
  storeId: string,
): Ledger => {
  /** The balance that a dry run would have reached so far. */
  let imaginedCents: number | null = null;
  return {
    add: async (connection, lines) => {
      if (lines.length === 0) {
        return new Map();
      }
      const entries = lines.map(({ balanceEntry }) => balanceEntry);
      return connection.transaction(async (transaction) => {
        const balance = await lockBalance(transaction, storeId);
        const known = await listKnownBalanceEntries(transaction, storeId, entries);
        const { outcomes, accepted, balanceCents } = decideAll(
          lines,
          known,
          imaginedCents ?? balance.balanceCents,
        );
        if (isDryRun) {
          imaginedCents = balanceCents;
        } else if (accepted.length > 0) {
          await insertImportedBalanceEntries(transaction, storeId, accepted);
          await recordAction(transaction, actor, clock.now(), {
            action: "import.history",
            accountId: storeId,
            details: { balanceEntries: accepted.length, balanceCents },
          });
        }
        return outcomes;
      });
    },
  };
};
