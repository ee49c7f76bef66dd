import type { ImportCounts, ImportedFile } from "./charityImports.sql.ts";
import { beginCharityImport, recordCharityImport, upsertCharities } from "./charityImports.sql.ts";
import type { MasterFileRecord } from "./businessMasterFile.rules.ts";
import { isMasterFileHeader, readMasterFileLine } from "./businessMasterFile.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";

/** Some milliseconds of work for the database, and little to repeat after an interruption. */
const BATCH_LINES = 2000;

export type CharityImport = ImportCounts & {
  /** Malformed lines, which were skipped. */
  readonly bad: number;
  /** Lines that an earlier import of the file had finished. */
  readonly linesDoneBefore: number;
};

type Observer = {
  readonly onBadLine: (line: number, problem: string) => void;
  readonly onProgress: (linesDone: number) => void;
};

const add = (left: ImportCounts, right: ImportCounts): ImportCounts => ({
  added: left.added + right.added,
  changed: left.changed + right.changed,
  same: left.same + right.same,
  older: left.older + right.older,
});

/**
 * Imports a Business Master File into the catalogue. Each batch commits with its progress, so an interrupted import
 * resumes there and importing the same file again changes nothing.
 * @param lines the file's lines, header first, without line ends
 * @throws DomainError request_invalid if the file is not a Business Master File
 */
export const importCharities = async (
  { db, clock, actor }: OperatorContext,
  file: ImportedFile,
  lines: AsyncIterable<string>,
  { onBadLine, onProgress }: Observer,
): Promise<CharityImport> => {
  const { linesDone: linesDoneBefore, isFinished } = await db.transaction(async (transaction) => {
    const progress = await beginCharityImport(transaction, file);
    if (!progress.isFinished) {
      await recordAction(transaction, actor, clock.now(), {
        action: "charity.import",
        details: { ...file, linesDone: progress.linesDone },
      });
    }
    return progress;
  });
  let counts: ImportCounts = { added: 0, changed: 0, same: 0, older: 0 };
  if (isFinished) {
    return { ...counts, bad: 0, linesDoneBefore };
  }
  let batch: MasterFileRecord[] = [];
  let bad = 0;
  let line = 0;
  const write = async (): Promise<void> => {
    const records = batch;
    batch = [];
    const done = line;
    counts = add(
      counts,
      await db.transaction(async (transaction) => {
        const written = await upsertCharities(transaction, records, file.extractedOn);
        await recordCharityImport(transaction, file, done, null);
        return written;
      }),
    );
    onProgress(done);
  };
  for await (const text of lines) {
    line += 1;
    if (line === 1 && !isMasterFileHeader(text)) {
      throw invalidRequest("the first line is not the header of a Business Master File");
    }
    if (line === 1 || line <= linesDoneBefore || text === "") {
      continue;
    }
    const record = readMasterFileLine(text);
    if (typeof record === "string") {
      bad += 1;
      onBadLine(line, record);
    } else {
      batch.push(record);
    }
    if (line % BATCH_LINES === 0) {
      await write();
    }
  }
  if (line === 0) {
    throw invalidRequest("the file is empty");
  }
  await write();
  await recordCharityImport(db, file, line, clock.now());
  return { ...counts, bad, linesDoneBefore };
};
