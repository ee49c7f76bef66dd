import { z } from "zod";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { describeIssues, messageOfIssue, mustBeOneOf } from "../../../domain/describeIssues.ts";
import { emptyAsNull, text } from "../../../domain/fields.ts";
import { findAmountProblem } from "../../../domain/history/importedBalance.ts";
import type { ImportedBalanceEntry } from "../../../domain/history/importedBalance.ts";
import { importedId } from "../../../domain/recordIds.ts";
import { BALANCE_ENTRY_KINDS, balanceNote } from "../../../domain/stores/stores.ts";
import type { BalanceEntryKind } from "../../../domain/stores/stores.ts";
import { createdAt } from "./createdAt.ts";

const CENTS_MUST_BE = `must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}`;

const balanceLine = z.strictObject({
  kind: z.literal("balance_entry"),
  id: importedId(),
  entry_kind: z.enum(BALANCE_ENTRY_KINDS, { error: mustBeOneOf(BALANCE_ENTRY_KINDS) }),
  amount_cents: z.int({ error: "must be an integer" }),
  balance_cents: z.int({ error: CENTS_MUST_BE }).min(0, CENTS_MUST_BE).optional(),
  quantity: z.int({ error: "must be an integer" }).min(1).optional(),
  reference: text(200).transform(emptyAsNull).default(null),
  note: balanceNote().default(""),
  created_at: createdAt(),
});

/**
 * The kinds whose references and notes operators write. Those of other kinds may name customers, as reasons of refunds do,
 * and an erasure could not find them: an imported entry does not say to which record it belongs.
 */
const BY_OPERATORS: ReadonlySet<BalanceEntryKind> = new Set(["topup", "adjustment"]);

/** The fields of a line, to name the columns of a CSV file. */
export const BALANCE_FIELDS: readonly string[] = Object.keys(balanceLine.shape);

/**
 * Parses a line of a store's ledger, or returns all that is wrong with it.
 * @param storeMode null if the owner is no store
 */
export const parseBalanceEntry = (
  fields: Readonly<Record<string, unknown>>,
  { now, storeMode }: { readonly now: Date; readonly storeMode: Mode | null },
): { readonly balanceEntry: ImportedBalanceEntry } | { readonly problem: string } => {
  if (storeMode !== "live") {
    return { problem: "only stores have a balance, and only in live mode" };
  }
  const parsed = balanceLine.safeParse(fields, { error: messageOfIssue });
  if (!parsed.success) {
    return { problem: describeIssues(parsed.error.issues, "field") };
  }
  const line = parsed.data;
  const problem = findAmountProblem(line.entry_kind, line.amount_cents);
  if (problem !== null) {
    return { problem };
  }
  if (new Date(line.created_at) > now) {
    return { problem: "created_at: must not be in the future" };
  }
  const isByOperator = BY_OPERATORS.has(line.entry_kind);
  return {
    balanceEntry: {
      importedId: line.id,
      kind: line.entry_kind,
      amountCents: line.amount_cents,
      balanceCents: line.balance_cents ?? null,
      quantity: line.quantity ?? null,
      reference: isByOperator ? line.reference : null,
      note: isByOperator ? line.note : "",
      createdAt: line.created_at,
    },
  };
};
