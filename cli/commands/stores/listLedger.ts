import { listBalanceEntries } from "../../../db/stores/balances.ts";
import type { BalanceEntry } from "../../../db/stores/balances.ts";
import { formatCents } from "../../../domain/money.ts";
import type { Context } from "../../context.ts";
import { say } from "../../io.ts";
import { printJson, printTable } from "../../output/print.ts";
import { findNamedStore } from "./findNamedStore.ts";

export type LedgerOptions = {
  readonly limit: number;
  readonly before?: number;
  readonly json?: true;
};

const presentEntry = (entry: BalanceEntry) => ({
  id: entry.id,
  kind: entry.kind,
  amount_cents: entry.amountCents,
  balance_cents: entry.balanceCents,
  quantity: entry.quantity,
  record_id: entry.recordId,
  reference: entry.reference,
  note: entry.note,
  created_at: entry.createdAt,
});

export const listLedger = async (
  { io, connections }: Context,
  idOrDomain: string,
  { limit, before, json }: LedgerOptions,
): Promise<void> => {
  const db = await connections.database();
  const store = await findNamedStore(db, idOrDomain);
  const entries = await listBalanceEntries(db, store.id, {
    before: before === undefined ? null : String(before),
    limit,
  });
  if (json) {
    printJson(io, entries.map(presentEntry));
    return;
  }
  printTable(
    io,
    ["entry", "at", "kind", "quantity", "amount", "balance", "reference", "note"],
    entries.map((entry) => [
      entry.id,
      entry.createdAt,
      entry.kind,
      entry.quantity,
      formatCents(entry.amountCents),
      formatCents(entry.balanceCents),
      entry.reference,
      entry.note,
    ]),
  );
  const last = entries.at(-1);
  if (last && entries.length === limit) {
    say(io, `For older entries, use --before ${last.id}.`);
  }
};
