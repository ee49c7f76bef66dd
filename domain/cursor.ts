import type { ImpactPosition } from "./stores/customers.ts";

const INSTANT = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})$/u;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/iu;

/** An instant in UTC to the microsecond, which a Date does not hold; null for what is no instant. */
export const toMicroseconds = (text: string): string | null => {
  const parts = INSTANT.exec(text);
  if (!parts) {
    return null;
  }
  const [, seconds = "", fraction = "", zone = ""] = parts;
  const whole = new Date(`${seconds}${zone}`);
  if (Number.isNaN(whole.getTime())) {
    return null;
  }
  const utc = whole.toISOString();
  // Years that PostgreSQL and the rest of the world write alike.
  return /^\d{4}-/u.test(utc) && !utc.startsWith("0000")
    ? `${utc.slice(0, 19)}.${fraction.slice(0, 6).padEnd(6, "0")}Z`
    : null;
};

/** A cursor in the list's order: the instant alone would skip or repeat records that share it. */
export const writeCursor = ({
  position,
  id,
}: {
  readonly position: string;
  readonly id: string;
}): string => `${position}_${id}`;

/** Reads a cursor, or an instant that stands for the end of all records of that instant; null when it is neither. */
export const readCursor = (text: string): ImpactPosition | null => {
  const [instant = "", id, ...rest] = text.split("_");
  const createdAt = toMicroseconds(instant);
  if (createdAt === null || rest.length > 0 || (id !== undefined && !UUID.test(id))) {
    return null;
  }
  return { createdAt, id: id ?? null };
};
