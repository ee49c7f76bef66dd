import type { CommonQueryMethods, DatabasePool } from "slonik";
import { createSeen, dropSeen, rememberIdentities } from "../../db/history/importedEntries.ts";
import {
  addToFileTotals,
  createFileTotals,
  dropFileTotals,
  listCounterDifferences,
  listFileTotals,
  listTotalDifferences,
} from "../../db/history/importedTotals.ts";
import type {
  Addend,
  CounterDifference,
  KindTotals,
  TotalDifference,
} from "../../db/history/importedTotals.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import type { ImportedEvidence } from "../../domain/history/importedEvidence.ts";
import { identitiesOf } from "../../domain/history/importedRecords.ts";
import type { ImportedRecord } from "../../domain/history/importedRecords.ts";
import { monthOf } from "../../domain/registrations/registrations.ts";
import { uuidOf } from "./assignIds.ts";
import type { ImportLine } from "./importHistory.ts";
import { importEvidence } from "./importEvidence.ts";
import { inBatches } from "./inBatches.ts";

export type Verification = {
  readonly lines: number;
  /** Lines that cannot be imported, which are not compared. */
  readonly bad: number;
  /** Lines that repeat the id or the idempotency key of an earlier one, which are not compared. */
  readonly repeated: number;
  /** Lines of evidence, and how many of them are not the evidence that is shown here. */
  readonly evidence: { readonly lines: number; readonly different: number };
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
      ? [record.amountCents, record.refundedAt === null ? 0 : record.amountCents]
      : [record.count, record.refundedCount];
  return { kind, month: monthOf(createdAt), attribution, quantity, refunded };
};

const countDifferentEvidence = async (
  { clock }: { readonly clock: Clock },
  connection: CommonQueryMethods,
  owner: AccountMode,
  lines: readonly Extract<ImportLine, { readonly evidence: ImportedEvidence }>[],
): Promise<number> => {
  const outcomes = await importEvidence({ clock, isDryRun: true }, connection, owner, lines);
  return [...outcomes.values()].filter(({ outcome }) => outcome !== "known").length;
};

/**
 * Compares the sums of files with the imported records of an owner: records, quantities and refunds by kind, UTC month
 * and attribution. Also compares the totals that the API returns with the records. Changes nothing; memory use is
 * constant.
 * @param onProgress called with the lines read so far
 */
export const verifyImport = (
  deps: { readonly db: DatabasePool; readonly clock: Clock },
  owner: AccountMode,
  lines: AsyncIterable<ImportLine>,
  onProgress: (lines: number) => void,
): Promise<Verification> =>
  deps.db.connect(async (connection) => {
    let [read, bad, repeated] = [0, 0, 0];
    let [evidenceLines, evidenceDifferences] = [0, 0];
    await createSeen(connection);
    await createFileTotals(connection);
    for await (const batch of inBatches(lines)) {
      const evidence: Extract<ImportLine, { readonly evidence: ImportedEvidence }>[] = [];
      const records: { readonly record: ImportedRecord; readonly holder: number }[] = [];
      for (const line of batch) {
        read += 1;
        if ("problem" in line) {
          bad += 1;
        } else if ("evidence" in line) {
          evidence.push(line);
        } else {
          records.push({ record: line.record, holder: read });
        }
      }
      const holders = await rememberIdentities(
        connection,
        records.flatMap(({ record, holder }) =>
          identitiesOf(record).map((identity) => {
            const hashed = uuidOf(identity);
            return { identity: hashed, content: hashed, refunded: 0, holder };
          }),
        ),
      );
      const first = new Map(holders.map(({ identity, holder }) => [identity, holder]));
      const counted = records.filter(({ record, holder }) =>
        identitiesOf(record).every((identity) => first.get(uuidOf(identity)) === holder),
      );
      repeated += records.length - counted.length;
      await addToFileTotals(
        connection,
        counted.map(({ record }) => addendOf(record)),
      );
      evidenceLines += evidence.length;
      evidenceDifferences += await countDifferentEvidence(deps, connection, owner, evidence);
      onProgress(read);
    }
    const differences = await listTotalDifferences(connection, owner, MAXIMUM_DIFFERENCES + 1);
    const verification = {
      lines: read,
      bad,
      repeated,
      evidence: { lines: evidenceLines, different: evidenceDifferences },
      files: await listFileTotals(connection),
      differences: differences.slice(0, MAXIMUM_DIFFERENCES),
      hasMoreDifferences: differences.length > MAXIMUM_DIFFERENCES,
      counters: await listCounterDifferences(connection, owner),
    };
    await dropFileTotals(connection);
    await dropSeen(connection);
    return verification;
  });
