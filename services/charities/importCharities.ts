import type { DatabasePool } from "slonik";
import type { ImportCounts, ImportedFile } from "../../db/charities/charityImports.ts";
import {
  beginCharityImport,
  noteCharityImport,
  upsertCharities,
} from "../../db/charities/charityImports.ts";
import type { MasterFileRecord } from "../../domain/charities/businessMasterFile.ts";
import {
  isMasterFileHeader,
  readMasterFileLine,
} from "../../domain/charities/businessMasterFile.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";

/** Some milliseconds of work for the database, and little to do again after an interruption. */
const BATCH_LINES = 2000;

export type CharityImport = ImportCounts & {
  /** Lines that could not be read. */
  readonly bad: number;
  /** Lines that an earlier, interrupted import of the file had done; all of them when it had finished. */
  readonly doneBefore: number;
};

type Observer = {
  readonly onBadLine: (line: number, reason: string) => void;
  readonly onProgress: (linesDone: number) => void;
};

const add = (left: ImportCounts, right: ImportCounts): ImportCounts => ({
  added: left.added + right.added,
  changed: left.changed + right.changed,
  same: left.same + right.same,
  older: left.older + right.older,
});

/**
 * Brings a Business Master File into the catalogue, batch by batch, each with the note of how far the import came: an
 * interrupted one goes on there, and the same file again changes nothing.
 * @param lines the file's lines, header first, without their ends
 * @throws DomainError request_invalid when the file is none of these
 */
export const importCharities = async (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  file: ImportedFile,
  lines: AsyncIterable<string>,
  { onBadLine, onProgress }: Observer,
): Promise<CharityImport> => {
  const { linesDone: doneBefore, isFinished } = await beginCharityImport(db, file);
  let counts: ImportCounts = { added: 0, changed: 0, same: 0, older: 0 };
  if (isFinished) {
    return { ...counts, bad: 0, doneBefore };
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
        await noteCharityImport(transaction, file, done, null);
        return written;
      }),
    );
    onProgress(done);
  };
  for await (const text of lines) {
    line += 1;
    if (line === 1 && !isMasterFileHeader(text)) {
      throw new DomainError(
        "request_invalid",
        "its first line is not that of a Business Master File",
      );
    }
    if (line === 1 || line <= doneBefore || text === "") {
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
    throw new DomainError("request_invalid", "it is empty");
  }
  await write();
  await noteCharityImport(db, file, line, clock.now());
  return { ...counts, bad, doneBefore };
};
