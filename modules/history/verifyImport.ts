import type { CommonQueryMethods } from "slonik";
import { unhurriedPace, openBulkPool } from "../../db/createBulkPace.ts";
import type { BulkPace } from "../../db/createBulkPace.ts";
import { listKnownBalanceEntries, readImportedLedger } from "./importedBalance.sql.ts";
import { rememberIdentities } from "./importRuns.sql.ts";
import {
  addToFileTotals,
  listCounterDifferences,
  listFileTotals,
  listTotalDifferences,
} from "./importedTotals.sql.ts";
import type {
  Addend,
  CounterDifference,
  KindTotals,
  TotalDifference,
} from "./importedTotals.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import { differencesOf, entryIdentity } from "./importedBalance.rules.ts";
import type { ImportedBalanceEntry } from "./importedBalance.rules.ts";
import { identitiesOf } from "./importedRecords.rules.ts";
import type { ImportedRecord } from "./importedRecords.rules.ts";
import { monthOf } from "../registrations/registrations.rules.ts";
import type { Context } from "../../runtime/context.ts";
import { uuidOf } from "./assignIds.ts";
import { sortLines, inBatches } from "./importLine.ts";
import type { EvidenceLine, ImportLine } from "./importLine.ts";
import { importEvidence } from "./importEvidence.ts";
import { withImportRun } from "./withImportRun.ts";

export type Verification = {
  readonly lines: number;
  /** Lines that cannot be imported, which are not compared. */
  readonly bad: number;
  /** Lines that repeat the id or the idempotency key of an earlier one, which are not compared. */
  readonly repeated: number;
  /** Lines of evidence, and how many of them are not the evidence that is shown here. */
  readonly evidence: { readonly lines: number; readonly different: number };
  readonly ledger: {
    /** Entries of a store's ledger, and how many of them are missing or different here. */
    readonly lines: number;
    readonly different: number;
    /** The balance after the last entry, if the files say it. */
    readonly statedCents: number | null;
    /** The imported entries here, and the balance after the last of them. */
    readonly entries: number;
    readonly importedCents: number;
    /** The balance, and the sum of all entries, which it must be. */
    readonly balanceCents: number;
    readonly sumCents: number;
  };
  readonly files: readonly KindTotals[];
  readonly differences: readonly TotalDifference[];
  readonly hasMoreDifferences: boolean;
  readonly counters: readonly CounterDifference[];
};

const MAXIMUM_DIFFERENCES = 1000;

const addendOf = (record: ImportedRecord): Addend => {
  const { kind, createdAt, attribution } = record;
  const [quantity, refunded] =
    record.kind === "donation"
      ? [record.amountCents, record.refunded ? record.amountCents : 0]
      : [record.count, record.refundedCount];
  return { kind, month: monthOf(createdAt), attribution, quantity, refunded };
};

const countDifferentEvidence = async (
  context: { readonly clock: Clock; readonly runId: string },
  connection: CommonQueryMethods,
  owner: AccountMode,
  lines: readonly EvidenceLine[],
): Promise<number> => {
  const outcomes = await importEvidence({ ...context, isDryRun: true }, connection, owner, lines);
  return [...outcomes.values()].filter(({ outcome }) => outcome !== "known").length;
};

const countDifferentEntries = async (
  connection: CommonQueryMethods,
  { accountId }: AccountMode,
  entries: readonly ImportedBalanceEntry[],
): Promise<number> => {
  const known = await listKnownBalanceEntries(connection, accountId, entries);
  const byId = new Map(known.map((entry) => [entry.importedId, entry]));
  return entries.filter((entry) => {
    const recorded = byId.get(entry.importedId);
    return !recorded || differencesOf(entry, recorded).length > 0;
  }).length;
};

/** Returns the lines whose ids and keys no earlier line has. */
const withoutRepeated = async <Line extends { readonly ordinal: number }>(
  connection: CommonQueryMethods,
  runId: string,
  lines: readonly Line[],
  identitiesOfLine: (line: Line) => readonly string[],
): Promise<readonly Line[]> => {
  const remembered = await rememberIdentities(
    connection,
    runId,
    lines.flatMap((line) =>
      identitiesOfLine(line).map((identity) => {
        const hashed = uuidOf(identity);
        return { identity: hashed, content: hashed, refunded: 0, holder: line.ordinal };
      }),
    ),
  );
  const first = new Map(remembered.map(({ identity, holder }) => [identity, holder]));
  return lines.filter((line) =>
    identitiesOfLine(line).every((identity) => first.get(uuidOf(identity)) === line.ordinal),
  );
};

/** Returns whether a store's ledger is that of the files, and its balance the sum of its entries. */
export const isLedgerEqual = ({ ledger }: Pick<Verification, "ledger">): boolean =>
  ledger.different === 0 &&
  ledger.lines === ledger.entries &&
  (ledger.statedCents === null || ledger.statedCents === ledger.importedCents) &&
  ledger.balanceCents === ledger.sumCents;

/**
 * Compares the sums of files with the imported records of an owner: records, quantities and refunds by kind, UTC month
 * and attribution. Also compares the totals that the API returns with the records. Changes no record; memory use is constant.
 * @param onProgress called with the lines read so far
 */
export const verifyImport = (
  { pace = unhurriedPace, ...given }: Context & { readonly pace?: BulkPace },
  owner: AccountMode,
  lines: AsyncIterable<ImportLine>,
  onProgress: (lines: number) => void,
): Promise<Verification> => {
  const context = { ...given, db: openBulkPool(given.db, pace) };
  return withImportRun(context, async (runId) => {
    const { db, clock } = context;
    let [read, badLines, repeated] = [0, 0, 0];
    let [evidenceLines, evidenceDifferences] = [0, 0];
    let [ledgerLines, ledgerDifferences] = [0, 0];
    let statedCents: number | null = null;
    for await (const batch of inBatches(lines, pace)) {
      const { bad, records, evidence, balanceEntries } = sortLines(batch, read);
      read += batch.length;
      badLines += bad.length;
      const counted = await withoutRepeated(db, runId, records, ({ record }) =>
        identitiesOf(record),
      );
      repeated += records.length - counted.length;
      await addToFileTotals(
        db,
        runId,
        counted.map(({ record }) => addendOf(record)),
      );
      evidenceLines += evidence.length;
      evidenceDifferences += await countDifferentEvidence({ clock, runId }, db, owner, evidence);
      const ownEntries = await withoutRepeated(db, runId, balanceEntries, ({ balanceEntry }) => [
        entryIdentity(balanceEntry),
      ]);
      const entries = ownEntries.map(({ balanceEntry }) => balanceEntry);
      ledgerLines += entries.length;
      ledgerDifferences += await countDifferentEntries(db, owner, entries);
      statedCents =
        entries.findLast((entry) => entry.balanceCents !== null)?.balanceCents ?? statedCents;
      onProgress(read);
    }
    const differences = await listTotalDifferences(db, runId, owner, MAXIMUM_DIFFERENCES + 1);
    const verification = {
      lines: read,
      bad: badLines,
      repeated,
      evidence: { lines: evidenceLines, different: evidenceDifferences },
      ledger: {
        lines: ledgerLines,
        different: ledgerDifferences,
        statedCents,
        ...(await readImportedLedger(db, owner)),
      },
      files: await listFileTotals(db, runId),
      differences: differences.slice(0, MAXIMUM_DIFFERENCES),
      hasMoreDifferences: differences.length > MAXIMUM_DIFFERENCES,
      counters: await listCounterDifferences(db, owner),
    };
    return verification;
  });
};
