import { hash } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import { addOccurrences } from "./importRuns.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { identitiesOf, lastingContentOf } from "./importedRecords.rules.ts";
import type { ImportedRecord } from "./importedRecords.rules.ts";

const formatUuid = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;

/** Returns a hash of a text in the format of a UUID, to compare it in the database. */
export const uuidOf = (text: string): string =>
  formatUuid(hash("sha256", text, "hex").slice(0, 32));

/**
 * Returns the id of an imported record. It is deterministic, which makes an import repeatable. It starts with the
 * timestamp, as the ids of new records do, so that the index grows at one end.
 */
const idOf = ({ createdAt }: ImportedRecord, identity: string): string => {
  const digest = hash("sha256", identity, "hex");
  const timestamp = new Date(createdAt).getTime().toString(16).padStart(12, "0");
  const variant = ((Number.parseInt(digest.slice(3, 4), 16) % 4) + 8).toString(16);
  // Version 8 of RFC 9562: a custom format.
  return formatUuid(`${timestamp}8${digest.slice(0, 3)}${variant}${digest.slice(4, 19)}`);
};

/**
 * Assigns each record its id. Equal records without an id and an idempotency key are separate: the second one gets the
 * same id whenever the files are imported. Lines with the same id or key are one record.
 */
export const assignIds = async <Line extends { readonly record: ImportedRecord }>(
  db: CommonQueryMethods,
  runId: string,
  { accountId, mode }: AccountMode,
  lines: readonly Line[],
): Promise<
  readonly {
    readonly id: string;
    readonly record: ImportedRecord;
    /** Its id and its idempotency key, as far as it has them. */
    readonly identities: readonly string[];
    readonly line: Line;
  }[]
> => {
  const owner = `${accountId}/${mode}`;
  const identitiesOfLines = lines.map(({ record }) => identitiesOf(record));
  const contents = lines.map(({ record }, index) =>
    identitiesOfLines[index]?.length === 0 ? uuidOf(lastingContentOf(record)) : null,
  );
  const inBatch = new Map<string, number>();
  for (const content of contents) {
    if (content !== null) {
      inBatch.set(content, (inBatch.get(content) ?? 0) + 1);
    }
  }
  const left = new Map(inBatch);
  const totals =
    inBatch.size === 0 ? new Map<string, number>() : await addOccurrences(db, runId, inBatch);
  return lines.map((line, index) => {
    const { record } = line;
    const identities = identitiesOfLines[index] ?? [];
    const content = contents[index] ?? null;
    if (content === null) {
      const [identity] = identities;
      return { id: idOf(record, JSON.stringify([owner, identity])), record, identities, line };
    }
    const remaining = left.get(content) ?? 0;
    left.set(content, remaining - 1);
    const occurrence = (totals.get(content) ?? 0) - remaining + 1;
    return {
      id: idOf(record, JSON.stringify([owner, content, occurrence])),
      record,
      identities,
      line,
    };
  });
};
