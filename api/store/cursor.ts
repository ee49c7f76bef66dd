import type { ListPosition, PositionedRow } from "../../db/listPositions.ts";

/** ISO 8601, also without seconds or an offset. A `+` that is not percent-encoded in a URL arrives as a space. */
const TIME =
  /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(?:(:\d{2})(?:\.(\d+))?)?([Zz]|[ +-]\d{2}:\d{2})?$/u;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/iu;

/** The days of the calendar, from the year 1000 to 2999, with 29 February in leap years. */
const DAY_PATTERN = String.raw`([12]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|([12]\d([02468][48]|[2468]0|[13579][26])|(1[26]|2[048])00)-02-29)`;
/** What `toMicroseconds` accepts, for API descriptions. */
const TIME_PATTERN = String.raw`${DAY_PATTERN}[Tt ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?([Zz]|[ +\-]([01]\d|2[0-3]):[0-5]\d)?`;
export const TIMESTAMP_PATTERN = `^${TIME_PATTERN}$`;
export const CURSOR_PATTERN = `^${TIME_PATTERN}(_[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})?$`;

/** A Date reads days that a month does not have as the next month's, and 24:00 as the next day's. */
const exists = (day: string, time: string): boolean => {
  const start = new Date(`${day}T00:00:00Z`);
  return (
    !Number.isNaN(start.getTime()) && start.toISOString().startsWith(day) && !time.startsWith("24")
  );
};

/**
 * Returns a time in UTC to the microsecond, which a Date cannot hold; null if the text is not a time. Without an offset, it is
 * in UTC, like the days of filters.
 */
export const toMicroseconds = (text: string): string | null => {
  const parts = TIME.exec(text);
  if (!parts) {
    return null;
  }
  const [, day = "", time = "", seconds = "", fraction = "", zone = "Z"] = parts;
  const whole = new Date(`${day}T${time}${seconds}${zone.toUpperCase().replace(" ", "+")}`);
  if (Number.isNaN(whole.getTime()) || !exists(day, time)) {
    return null;
  }
  const utc = whole.toISOString();
  // Only years that ISO 8601 and PostgreSQL write alike.
  return /^\d{4}-/u.test(utc) && !utc.startsWith("0000")
    ? `${utc.slice(0, 19)}.${fraction.slice(0, 6).padEnd(6, "0")}Z`
    : null;
};

/** Returns the cursor of a record. It includes the id, since several records can share a time. */
export const writeCursor = ({ position, id }: PositionedRow): string => `${position}_${id}`;

/** Reads a cursor, or a time, which means the end of all records of that time; null if the text is neither. */
export const readCursor = (text: string): ListPosition | null => {
  const [time = "", id, ...rest] = text.split("_");
  const createdAt = toMicroseconds(time);
  if (createdAt === null || rest.length > 0 || (id !== undefined && !UUID.test(id))) {
    return null;
  }
  return { createdAt, id: id ?? null };
};
