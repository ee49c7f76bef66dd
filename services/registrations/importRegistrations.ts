import { hash } from "node:crypto";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import type { ImportedEntry } from "../../db/registrations/importedRegistrations.ts";
import {
  addOccurrences,
  createOccurrences,
  dropOccurrences,
  insertImportedRegistrations,
} from "../../db/registrations/importedRegistrations.ts";
import { isContentError } from "../../db/isContentError.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { DomainError } from "../../domain/errors.ts";
import type { ImportedRegistration } from "../../domain/registrations/importedRegistration.ts";
import { contentOf } from "../../domain/registrations/importedRegistration.ts";

/** A line of an import, numbered from 1: its registration, or why it cannot be imported. */
export type ImportLine = { readonly number: number } & (
  | { readonly registration: ImportedRegistration }
  | { readonly problem: string }
);

export type ImportSummary = {
  /** Lines read, without empty ones. */
  readonly lines: number;
  readonly imported: number;
  /** Recorded already, by an earlier import or under the same idempotency key. */
  readonly known: number;
  readonly refused: number;
};

export type ImportObserver = {
  /** Called for each line that is not imported. */
  readonly onProblem: (lineNumber: number, problem: string) => void;
  /** Called after each batch. */
  readonly onProgress: (summary: ImportSummary) => void;
};

type Numbered<Value> = { readonly number: number; readonly value: Value };

/** One statement of about 30 ms, which is how long the totals of a busy account stay locked. */
const BATCH = 1000;

const formatUuid = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;

/**
 * Returns the id of an imported registration. It is deterministic, which makes an import repeatable. It starts with the
 * timestamp, as the ids of new registrations do, so that the index grows at one end.
 */
const idOf = (owner: string, registration: ImportedRegistration, occurrence: number): string => {
  const digest = hash(
    "sha256",
    JSON.stringify([owner, contentOf(registration), occurrence]),
    "hex",
  );
  const timestamp = registration.createdAt.getTime().toString(16).padStart(12, "0");
  const variant = ((Number.parseInt(digest.slice(3, 4), 16) % 4) + 8).toString(16);
  // Version 8 of RFC 9562: a custom format.
  return formatUuid(`${timestamp}8${digest.slice(0, 3)}${variant}${digest.slice(4, 19)}`);
};

async function* inBatches<Item>(
  items: AsyncIterable<Item>,
): AsyncGenerator<readonly Item[], void, void> {
  let batch: Item[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length === BATCH) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) {
    yield batch;
  }
}

/**
 * Assigns each registration its id. Equal lines without an idempotency key are separate registrations: the second one
 * gets the same id whenever the file is imported. Lines with the same key are one registration.
 */
const assignIds = async (
  connection: CommonQueryMethods,
  owner: string,
  registrations: readonly Numbered<ImportedRegistration>[],
): Promise<readonly Numbered<ImportedEntry>[]> => {
  const contents = registrations.map(({ value }) =>
    value.idempotencyKey === null
      ? formatUuid(hash("sha256", contentOf(value), "hex").slice(0, 32))
      : null,
  );
  const inBatch = new Map<string, number>();
  for (const content of contents) {
    if (content !== null) {
      inBatch.set(content, (inBatch.get(content) ?? 0) + 1);
    }
  }
  const left = new Map(inBatch);
  const totals =
    inBatch.size === 0 ? new Map<string, number>() : await addOccurrences(connection, inBatch);
  return registrations.map(({ number, value }, index) => {
    const content = contents[index] ?? null;
    let occurrence = 1;
    if (content !== null) {
      const remaining = left.get(content) ?? 0;
      occurrence = (totals.get(content) ?? 0) - remaining + 1;
      left.set(content, remaining - 1);
    }
    return { number, value: { ...value, id: idOf(owner, value, occurrence) } };
  });
};

/**
 * Imports registrations that another system billed: they count in the totals, have no usage and cannot be refunded.
 * Nothing is imported twice, so an interrupted import is completed by running it again. Memory use is constant: lines are
 * read as fast as they are written.
 */
export const importRegistrations = (
  db: DatabasePool,
  owner: AccountMode,
  lines: AsyncIterable<ImportLine>,
  { onProblem, onProgress }: ImportObserver,
): Promise<ImportSummary> => {
  const ownerName = `${owner.accountId}/${owner.mode}`;
  let summary: ImportSummary = { lines: 0, imported: 0, known: 0, refused: 0 };

  const refuse = (lineNumber: number, problem: string): void => {
    summary = { ...summary, refused: summary.refused + 1 };
    onProblem(lineNumber, problem);
  };

  const selectValid = (batch: readonly ImportLine[]): readonly Numbered<ImportedRegistration>[] => {
    const registrations: Numbered<ImportedRegistration>[] = [];
    for (const line of batch) {
      if ("problem" in line) {
        refuse(line.number, line.problem);
      } else {
        registrations.push({ number: line.number, value: line.registration });
      }
    }
    return registrations;
  };

  /** If the database rejects a batch, its halves are tried, until a bad line fails alone. */
  const write = async (
    connection: CommonQueryMethods,
    entries: readonly Numbered<ImportedEntry>[],
  ): Promise<void> => {
    const [first] = entries;
    if (first === undefined) {
      return;
    }
    try {
      const imported = await insertImportedRegistrations(
        connection,
        owner,
        entries.map(({ value }) => value),
      );
      summary = {
        ...summary,
        imported: summary.imported + imported,
        known: summary.known + entries.length - imported,
      };
    } catch (error) {
      if (!isContentError(error)) {
        throw error;
      }
      if (entries.length === 1) {
        refuse(
          first.number,
          error instanceof DomainError ? error.message : "the database cannot store it",
        );
        return;
      }
      const middle = Math.ceil(entries.length / 2);
      await write(connection, entries.slice(0, middle));
      await write(connection, entries.slice(middle));
    }
  };

  return db.connect(async (connection) => {
    await createOccurrences(connection);
    for await (const batch of inBatches(lines)) {
      summary = { ...summary, lines: summary.lines + batch.length };
      await write(connection, await assignIds(connection, ownerName, selectValid(batch)));
      onProgress(summary);
    }
    // Not in a finally block: after an error the pool closes the connection, and a second error would hide the first.
    await dropOccurrences(connection);
    return summary;
  });
};
