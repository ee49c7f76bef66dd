import { hash } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import { addEqualRecords } from "./importLines.sql.ts";
import { identitiesOf, lastingContentOf } from "./importedRecords.rules.ts";
import type { ImportedRecord, ImportOwner } from "./importedRecords.rules.ts";
import type { ImportedEntry } from "./importedRecords.sql.ts";
import type { RecordLine } from "./importLine.ts";

/** A record with the ids under which it is looked for. */
export type IdentifiedEntry = ImportedEntry & {
  /** Its id and its idempotency key, as far as it has them. */
  readonly identities: readonly string[];
  readonly line: RecordLine;
  /** The line's place among all lines, from 1. */
  readonly ordinal: number;
};

const formatUuid = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;

/** Returns a hash of a text in the format of a UUID, to compare it in the database. */
export const uuidOf = (text: string): string =>
  formatUuid(hash("sha256", text, "hex").slice(0, 32));

const hexOfTime = (milliseconds: number): string => milliseconds.toString(16).padStart(12, "0");

/** Returns the first id of version 7 of a time. */
export const firstIdOf = (time: Date): string =>
  formatUuid(`${hexOfTime(time.getTime())}${"0".repeat(20)}`);

/**
 * Returns the id of an imported record. It is deterministic, which makes an import repeatable. It starts with the
 * timestamp, as the ids of new records do, so that the index grows at one end.
 */
const idOf = ({ created_at: createdAt }: ImportedRecord, identity: string): string => {
  const digest = hash("sha256", identity, "hex");
  const variant = ((Number.parseInt(digest.slice(3, 4), 16) % 4) + 8).toString(16);
  // Version 8 of RFC 9562: a custom format.
  return formatUuid(
    `${hexOfTime(new Date(createdAt).getTime())}8${digest.slice(0, 3)}${variant}${digest.slice(4, 19)}`,
  );
};

/**
 * Assigns each record its id. Equal records without an id and an idempotency key are separate: the second one gets the
 * same id whenever the files are imported. Lines with the same id or key are one record.
 */
export const assignIds = async (
  db: CommonQueryMethods,
  runId: string,
  { accountId, mode }: ImportOwner,
  lines: readonly { readonly line: RecordLine; readonly ordinal: number }[],
): Promise<readonly IdentifiedEntry[]> => {
  const described = lines.map(({ line, ordinal }) => {
    const { record } = line;
    const identities = identitiesOf(record);
    const content = identities.length === 0 ? uuidOf(lastingContentOf(record)) : null;
    return { line, ordinal, record, identities, content };
  });
  const inBatch = new Map<string, number>();
  for (const { content } of described) {
    if (content !== null) {
      inBatch.set(content, (inBatch.get(content) ?? 0) + 1);
    }
  }
  const totals =
    inBatch.size === 0 ? new Map<string, number>() : await addEqualRecords(db, runId, inBatch);
  return described.map(({ content, record, identities, line, ordinal }) => {
    const names: (string | number | undefined)[] = [`${accountId}/${mode}`];
    if (content === null) {
      names.push(identities[0]);
    } else {
      const remaining = inBatch.get(content) ?? 0;
      inBatch.set(content, remaining - 1);
      names.push(content, (totals.get(content) ?? 0) - remaining + 1);
    }
    return { id: idOf(record, JSON.stringify(names)), record, identities, line, ordinal };
  });
};
