import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { isUuid, text } from "./fields.rules.ts";

/* An imported record also has the id of the system that it came from: its clients have stored it, and see and send that one. */

const IMPORTED_ID_CHARACTERS = 64;

/** The id that a record has in the system that it is imported from. */
export const importedId = () => text(IMPORTED_ID_CHARACTERS).min(1, "must not be empty");

const IMPORTED_ID = importedId();

export const isRecordId = (given: string): boolean =>
  isUuid(given) || IMPORTED_ID.safeParse(given).success;

export const shownIdOf = (record: {
  readonly id: string;
  /** Null if the record was created here. */
  readonly importedId: string | null;
}): string => record.importedId ?? record.id;

type RecordKind = "registration" | "donation" | "record";

export const recordNotFound = (kind: RecordKind, given: string): DomainError =>
  new DomainError("record_not_found", `${kind} ${given} not found; search with \`impact find\``);

/**
 * Returns the id of the only record that an operator names.
 * @param found the ids of the records that have the given one
 * @throws DomainError record_not_found, or request_invalid if another account has imported a record with the same id
 */
export const requireOneRecord = (
  kind: RecordKind,
  given: string,
  [id, ...others]: readonly string[],
): string => {
  if (id === undefined) {
    throw recordNotFound(kind, given);
  }
  if (others.length > 0) {
    throw invalidRequest(
      `${others.length + 1} ${kind}s have the id ${given}; add --org with the id of the organization or store, or use an internal id that \`impact find\` shows`,
    );
  }
  return id;
};

/** Not greater than any other UUID. */
export const FIRST_ID = "00000000-0000-0000-0000-000000000000";
