/**
 * ISO 8601, extended or basic, also without a time, seconds or an offset. A `+` that is not percent-encoded in a URL
 * arrives as a space.
 */
const TIMESTAMP =
  /^(\d{4})-?(\d{2})-?(\d{2})(?:[Tt ](\d{2})(?::?(\d{2})(?::?(\d{2})(?:[.,](\d+))?)?)?(?:([Zz])|([ +-])(\d{2})(?::?(\d{2}))?)?)?$/u;

/** The days of the calendar, from the year 1000 to 2999, with 29 February in leap years. */
const DAY_PATTERN = String.raw`([12]\d{3}-?((0[13578]|1[02])-?(0[1-9]|[12]\d|3[01])|(0[469]|11)-?(0[1-9]|[12]\d|30)|02-?(0[1-9]|1\d|2[0-8]))|([12]\d([02468][48]|[2468]0|[13579][26])|(1[26]|2[048])00)-?02-?29)`;
const HOUR_PATTERN = String.raw`([01]\d|2[0-3])`;
/** What `readTimestamp` accepts, for API descriptions. */
export const TIMESTAMP_PATTERN = String.raw`^${DAY_PATTERN}([Tt ]${HOUR_PATTERN}(:?[0-5]\d(:?[0-5]\d([.,]\d+)?)?)?([Zz]|[ +\-]${HOUR_PATTERN}(:?[0-5]\d)?)?)?$`;

/**
 * Returns a timestamp in UTC to the microsecond, which a Date cannot hold, or null. Without an offset, it is in UTC, like
 * the days of filters.
 * @param rounding of digits after the microseconds
 */
export const readTimestamp = (text: string, rounding: "up" | "down"): string | null => {
  const parts = TIMESTAMP.exec(text);
  if (!parts) {
    return null;
  }
  const [, year, month, date, hour = "00", minute = "00", second = "00", fraction = ""] = parts;
  const [sign = "+", offsetHour = "00", offsetMinute = "00"] = parts.slice(9);
  const day = `${year}-${month}-${date}`;
  const offset = `${sign.replace(" ", "+")}${offsetHour}:${offsetMinute}`;
  const start = new Date(`${day}T00:00:00Z`);
  const whole = new Date(`${day}T${hour}:${minute}:${second}${offset}`);
  // A Date reads days that a month does not have as the next month's, and 24:00 as the next day's.
  const exists =
    !Number.isNaN(start.getTime()) && start.toISOString().startsWith(day) && hour !== "24";
  if (!exists || Number.isNaN(whole.getTime())) {
    return null;
  }
  const hasRest = /[1-9]/u.test(fraction.slice(6));
  const microseconds =
    Number(fraction.slice(0, 6).padEnd(6, "0")) + Number(hasRest && rounding === "up");
  const utc = new Date(whole.getTime() + Math.floor(microseconds / 1_000_000) * 1000).toISOString();
  // Only years that ISO 8601 and PostgreSQL write alike.
  return /^\d{4}-/u.test(utc) && !utc.startsWith("0000")
    ? `${utc.slice(0, 19)}.${String(microseconds % 1_000_000).padStart(6, "0")}Z`
    : null;
};

/** Returns the microseconds since 1970 of a timestamp as `readTimestamp` returns it. They are safe integers until 2255. */
export const toMicroseconds = (timestamp: string): number =>
  new Date(timestamp).getTime() * 1000 + Number(timestamp.slice(23, 26));

export const fromMicroseconds = (microseconds: number): string =>
  new Date(Math.floor(microseconds / 1000))
    .toISOString()
    .replace("Z", `${String(microseconds % 1000).padStart(3, "0")}Z`);

/** Returns times in microseconds, each the first that is not before the given one and neither taken nor returned before. */
export const spreadTimes = (given: readonly number[], taken: Iterable<number>) => {
  /** Where the search for a free time continues from one that is not free. */
  const next = new Map<number, number>();
  for (const time of taken) {
    next.set(time, time + 1);
  }
  return given.map((start) => {
    let time = start;
    for (let later = next.get(time); later !== undefined; later = next.get(time)) {
      time = later;
    }
    next.set(start, time + 1);
    next.set(time, time + 1);
    return time;
  });
};
