import { hash } from "node:crypto";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import type { ImportedEntry } from "../../db/registrations/importedRegistrations.ts";
import {
  addOccurrences,
  createOccurrences,
  dropOccurrences,
  insertImportedRegistrations,
} from "../../db/registrations/importedRegistrations.ts";
import { isRefusedContent } from "../../db/isRefusedContent.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import type { ImportedRegistration } from "../../domain/registrations/importedRegistration.ts";
import {
  contentOf,
  parseImportedRegistration,
} from "../../domain/registrations/importedRegistration.ts";

/** A line of the file, numbered from 1: its text, or why it could not be read. */
export type ImportLine = { readonly number: number } & (
  | { readonly text: string }
  | { readonly fault: string }
);

export type ImportSummary = {
  /** Lines that were read, empty ones left out. */
  readonly lines: number;
  readonly imported: number;
  /** On record already, from an earlier import or under their idempotency key. */
  readonly known: number;
  readonly refused: number;
};

type Numbered<Value> = { readonly number: number; readonly value: Value };

/** A statement of some 30 ms: the totals of a busy account are locked no longer than that. */
const BATCH = 1000;

const formatUuid = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;

/**
 * The id of an imported registration: the same line makes the same id, which is what makes an import repeatable. It
 * starts with the instant, as the ids of new registrations do, so that the index grows at one end.
 */
const idOf = (owner: string, registration: ImportedRegistration, occurrence: number): string => {
  const digest = hash(
    "sha256",
    JSON.stringify([owner, contentOf(registration), occurrence]),
    "hex",
  );
  const instant = registration.createdAt.getTime().toString(16).padStart(12, "0");
  const variant = ((Number.parseInt(digest.slice(3, 4), 16) % 4) + 8).toString(16);
  // Version 8: an id of our own making, by RFC 9562.
  return formatUuid(`${instant}8${digest.slice(0, 3)}${variant}${digest.slice(4, 19)}`);
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
 * Gives each registration its id. Of lines that say the same, the second stands for a second registration, in this
 * file and whenever it is imported again; an idempotency key stands for one, however often it is given.
 */
const identify = async (
  connection: CommonQueryMethods,
  owner: string,
  registrations: readonly Numbered<ImportedRegistration>[],
): Promise<readonly Numbered<ImportedEntry>[]> => {
  const contents = registrations.map(({ value }) =>
    value.idempotencyKey === null
      ? formatUuid(hash("sha256", contentOf(value), "hex").slice(0, 32))
      : null,
  );
  const here = new Map<string, number>();
  for (const content of contents) {
    if (content !== null) {
      here.set(content, (here.get(content) ?? 0) + 1);
    }
  }
  const left = new Map(here);
  const totals =
    here.size === 0 ? new Map<string, number>() : await addOccurrences(connection, here);
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
 * Takes over history that another system billed: registrations with their totals and without usage, so that they
 * cannot be refunded here. Nothing is taken over twice, so an import that was cut off is simply run again. Lines are
 * read as fast as they can be written, in constant memory.
 * @param onFault told of each line that is left out, and why
 * @param onProgress told after each batch
 */
export const importRegistrations = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  account: { readonly id: string; readonly fractionalCounting: boolean },
  mode: Mode,
  lines: AsyncIterable<ImportLine>,
  {
    onFault,
    onProgress,
  }: {
    readonly onFault: (number: number, fault: string) => void;
    readonly onProgress: (summary: ImportSummary) => void;
  },
): Promise<ImportSummary> => {
  const owner = { accountId: account.id, mode };
  const ownerName = `${account.id}/${mode}`;
  let summary: ImportSummary = { lines: 0, imported: 0, known: 0, refused: 0 };

  const refuse = (number: number, fault: string): void => {
    summary = { ...summary, refused: summary.refused + 1 };
    onFault(number, fault);
  };

  const read = (batch: readonly ImportLine[]): readonly Numbered<ImportedRegistration>[] => {
    const now = clock.now();
    const { fractionalCounting } = account;
    const registrations: Numbered<ImportedRegistration>[] = [];
    for (const line of batch) {
      const parsed =
        "fault" in line ? line : parseImportedRegistration(line.text, { now, fractionalCounting });
      if ("fault" in parsed) {
        refuse(line.number, parsed.fault);
      } else {
        registrations.push({ number: line.number, value: parsed.registration });
      }
    }
    return registrations;
  };

  /** What the database refuses is found by halving, so that it is refused alone. */
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
      if (!isRefusedContent(error)) {
        throw error;
      }
      if (entries.length === 1) {
        refuse(
          first.number,
          error instanceof DomainError ? error.message : "the database cannot hold it",
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
      await write(connection, await identify(connection, ownerName, read(batch)));
      onProgress(summary);
    }
    // Not where the import fails: the pool closes the connection then, and the failure is not hidden by another one.
    await dropOccurrences(connection);
    return summary;
  });
};
