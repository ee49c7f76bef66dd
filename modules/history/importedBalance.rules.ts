import { KINDS } from "../records/owner.rules.ts";
import { isPossibleBalance } from "../stores/stores.rules.ts";
import type { BalanceEntryKind } from "../stores/stores.rules.ts";

/** An entry of a store's ledger in another system. */
export type ImportedBalanceEntry = {
  /** Its id in the other system, by which a repeated import finds it. */
  readonly importedId: string;
  readonly kind: BalanceEntryKind;
  /** Negative for what was spent. */
  readonly amountCents: number;
  /** The balance after it in the other system; null if the line does not say it. */
  readonly balanceCents: number | null;
  readonly quantity: number | null;
  readonly reference: string | null;
  readonly note: string;
  /** In microseconds. */
  readonly createdAt: string;
};

const ALWAYS_POSITIVE: ReadonlySet<BalanceEntryKind> = new Set(["topup", "refund"]);
const ALWAYS_NEGATIVE: ReadonlySet<BalanceEntryKind> = new Set([...KINDS, "donation"]);

/** Returns why an entry of this kind cannot have this amount, or null. */
export const findAmountProblem = (kind: BalanceEntryKind, amountCents: number): string | null => {
  if (amountCents === 0) {
    return "amount_cents: must not be 0";
  }
  if (ALWAYS_POSITIVE.has(kind) && amountCents < 0) {
    return `amount_cents: of a ${kind} must be positive`;
  }
  return ALWAYS_NEGATIVE.has(kind) && amountCents > 0
    ? `amount_cents: of a ${kind} must be negative, because it was spent`
    : null;
};

/** Returns the balance after an entry, or why the entry cannot follow that balance. */
export const balanceAfter = (
  balanceCents: number,
  entry: Pick<ImportedBalanceEntry, "amountCents" | "balanceCents">,
): number | string => {
  const after = balanceCents + entry.amountCents;
  if (entry.balanceCents !== null && entry.balanceCents !== after) {
    return `the balance after it would be ${after} cents here, but the line says ${entry.balanceCents}; import all entries, oldest first, before the store pays here`;
  }
  if (!isPossibleBalance(after)) {
    return `the balance would become ${after} cents; import all entries, oldest first`;
  }
  return after;
};

/** Returns what identifies an entry among the lines of files. */
export const entryIdentity = ({ importedId }: ImportedBalanceEntry): string =>
  JSON.stringify(["balance_entry", "id", importedId]);

/** Returns the fields in which an entry differs from the recorded one. */
export const differencesOf = (
  entry: ImportedBalanceEntry,
  recorded: Pick<
    ImportedBalanceEntry,
    "kind" | "amountCents" | "quantity" | "reference" | "createdAt"
  >,
): readonly string[] => [
  ...(recorded.kind === entry.kind ? [] : ["entry_kind"]),
  ...(recorded.amountCents === entry.amountCents ? [] : ["amount_cents"]),
  ...(recorded.quantity === entry.quantity ? [] : ["quantity"]),
  ...(recorded.reference === entry.reference ? [] : ["reference"]),
  ...(recorded.createdAt === entry.createdAt ? [] : ["created_at"]),
];
