import { markUnlisted, updateCharityLinks, upsertCharities } from "./charityImports.sql.ts";
import type { ImportCounts } from "./charityImports.sql.ts";
import { isMasterFileHeader, readMasterFileLine } from "./businessMasterFile.rules.ts";
import type { MasterFileRecord } from "./businessMasterFile.rules.ts";
import { readLinksLine } from "./charityLinks.rules.ts";
import type { CharityLinks } from "./charityLinks.rules.ts";
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

/**
 * Writes the records of a file in batches.
 * @param read returns the record of a line, a text that says what is wrong with it, or null for a line without a record
 * @returns the number of malformed lines, which are skipped
 */
const writeRecords = async <Entry extends object>(
  { lines, onBadLine, onProgress }: ImportedFile,
  read: (line: string, number: number) => Entry | string | null,
  write: (records: readonly Entry[]) => Promise<void>,
): Promise<number> => {
  let batch: Entry[] = [];
  let bad = 0;
  let number = 0;
  for await (const line of lines) {
    number += 1;
    const record = read(line, number);
    if (typeof record === "string") {
      bad += 1;
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
    throw invalidRequest("the file is empty");
  }
  await write(batch);
  return bad;
};

const readRecord = (line: string, number: number): MasterFileRecord | string | null => {
  if (number === 1) {
    if (!isMasterFileHeader(line)) {
      throw invalidRequest("the first line is not the header of a Business Master File");
    }
    return null;
  }
  return line === "" ? null : readMasterFileLine(line);
};

export type CharityImport = ImportCounts & {
  /** Malformed lines, which were skipped. */
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
  file: ImportedFile,
  extractedOn: string,
): Promise<CharityImport> => {
  await recordAction(db, actor, clock.now(), {
    action: "charity.import",
    details: { file: file.name, extractedOn },
  });
  let counts: ImportCounts = { added: 0, changed: 0, same: 0, older: 0 };
  const bad = await writeRecords(file, readRecord, async (records) => {
    const { added, changed, same, older } = await upsertCharities(db, records, extractedOn);
    counts = {
      added: counts.added + added,
      changed: counts.changed + changed,
      same: counts.same + same,
      older: counts.older + older,
    };
  });
  return { ...counts, bad };
};

/**
 * Marks the charities that an extract lacks as not eligible for donations, until a later one lists them again.
 * @param extractedOn the date of the extract, whose files have all been imported
 * @returns their number
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

export type LinksImport = {
  /** Charities that the file names and the catalogue has. */
  readonly updated: number;
  readonly unknown: number;
  /** Malformed lines, which were skipped. */
  readonly bad: number;
};

/** Imports websites and icons of charities of the catalogue, one JSON object a line. Repeating it changes nothing. */
export const importCharityLinks = async (
  { db, clock, actor }: OperatorContext,
  file: ImportedFile,
): Promise<LinksImport> => {
  await recordAction(db, actor, clock.now(), {
    action: "charity.import",
    details: { file: file.name },
  });
  let updated = 0;
  let unknown = 0;
  const bad = await writeRecords<CharityLinks>(
    file,
    (line) => (line.trim() === "" ? null : readLinksLine(line)),
    async (batch) => {
      // The last line of an EIN counts.
      const links = [...new Map(batch.map((entry) => [entry.ein, entry])).values()];
      const written = await updateCharityLinks(db, links);
      updated += written;
      unknown += links.length - written;
    },
  );
  return { updated, unknown, bad };
};
