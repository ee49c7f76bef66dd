import { isUuid, text } from "./fields.ts";

/*
 * Records have UUIDs. An imported record also has the id of the system that it came from, which its clients have stored:
 * they see and send that one.
 */

const IMPORTED_ID_CHARACTERS = 64;

/** The id that a record has in the system that it is imported from. */
export const importedId = () => text(IMPORTED_ID_CHARACTERS).min(1, "must not be empty");

/** Returns whether a text can be the id of a record. */
export const isRecordId = (given: string): boolean =>
  isUuid(given) || importedId().safeParse(given).success;

/** Returns the id of a record as clients see it. */
export const shownIdOf = ({
  id,
  importedId: imported,
}: {
  readonly id: string;
  /** Null if the record was created here. */
  readonly importedId: string | null;
}): string => imported ?? id;
