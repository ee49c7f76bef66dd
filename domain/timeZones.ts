/**
 * Names such as `Europe/Berlin`, and `UTC`. PostgreSQL reads offsets such as `+01:00` the other way round, and
 * abbreviations such as `ACT` and names such as `SystemV/PST8`, which only Node knows, in a way of its own.
 */
const NAME = /^(?!SystemV\/)(?:UTC|[A-Za-z][\w+-]*(?:\/[\w+-]+)+)$/u;

const MAXIMUM_LENGTH = 100;

/** Returns whether a text is the name of a time zone in the IANA database. */
export const isTimeZone = (name: string): boolean => {
  if (name.length > MAXIMUM_LENGTH || !NAME.test(name)) {
    return false;
  }
  try {
    // Throws for unknown names.
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
};

/** Returns the calendar day of a time in a time zone, `YYYY-MM-DD`. */
export const dayIn = (timeZone: string, time: Date): string => {
  const parts = new Intl.DateTimeFormat("en", {
    timeZone,
    calendar: "iso8601",
    numberingSystem: "latn",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
  }).formatToParts(time);
  const part = (wanted: Intl.DateTimeFormatPartTypes): string =>
    parts.find(({ type }) => type === wanted)?.value ?? "";
  return `${part("year").padStart(4, "0")}-${part("month")}-${part("day")}`;
};
