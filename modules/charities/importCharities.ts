import { markUnlisted, upsertCharities } from "./catalogue.sql.ts";
import { masterFileReader } from "./businessMasterFile.rules.ts";
import type { MasterFileRecord, ReadMasterFileLine } from "./businessMasterFile.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";

/** Some milliseconds of work for the database. */
const BATCH_RECORDS = 2000;

/** A file of lines, without line ends, and who hears of its import. */
export type ImportedFile = {
  readonly name: string;
  readonly lines: AsyncIterable<string>;
  readonly onBadLine: (line: number, problem: string) => void;
  readonly onProgress: (linesDone: number) => void;
};

export type CharityImport = {
  readonly read: number;
  /** Those that have changed the catalogue. It has the others already, or from a newer extract. */
  readonly written: number;
  readonly bad: number;
};

/**
 * Imports a Business Master File into the catalogue. It may be interrupted and repeated: importing a file again changes
 * nothing.
 * @param extractedOn the date of the extract
 * @throws DomainError request_invalid if the file is not a Business Master File
 */
export const importCharities = async (
  { db, clock, actor }: OperatorContext,
  { name: file, lines, onBadLine, onProgress }: ImportedFile,
  extractedOn: string,
): Promise<CharityImport> => {
  await recordAction(db, actor, clock.now(), {
    action: "charity.import",
    details: { file, extractedOn },
  });
  const counts = { read: 0, written: 0, bad: 0 };
  const write = async (records: readonly MasterFileRecord[]): Promise<void> => {
    counts.written += await upsertCharities(db, records, extractedOn);
    counts.read += records.length;
  };
  let batch: MasterFileRecord[] = [];
  let readLine: ReadMasterFileLine | null = null;
  let number = 0;
  for await (const line of lines) {
    number += 1;
    if (number === 1) {
      readLine = masterFileReader(line);
      continue;
    }
    if (readLine === null) {
      break;
    }
    const record = line === "" ? null : readLine(line);
    if (typeof record === "string") {
      counts.bad += 1;
      onBadLine(number, record);
    } else if (record !== null) {
      batch.push(record);
    }
    if (batch.length === BATCH_RECORDS) {
      await write(batch);
      batch = [];
      onProgress(number);
    }
  }
  if (number === 0) {
    throw invalidRequest(`${file} cannot be imported: the file is empty`);
  }
  if (readLine === null) {
    throw invalidRequest(
      `${file} cannot be imported: the first line is not the header of a Business Master File`,
    );
  }
  await write(batch);
  return counts;
};

/**
 * Marks the charities that an extract lacks as not eligible for donations, until a later one lists them again.
 * @param extractedOn the date of the extract, whose files have all been imported
 */
export const removeUnlisted = (
  { db, clock, actor }: OperatorContext,
  extractedOn: string,
): Promise<number> =>
  db.transaction(async (transaction) => {
    const removed = await markUnlisted(transaction, extractedOn);
    await recordAction(transaction, actor, clock.now(), {
      action: "charity.import",
      details: { extractedOn, removed },
    });
    return removed;
  });
