/*
 * What COPY writes in its text format: a line for each row, with tabs between the values.
 */

/** The byte that ends a line. Within a value it is escaped. */
export const LINE_END = 0x0a;

const ESCAPED = /\\(.)/gsu;

const CONTROLS: Readonly<Record<string, string>> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

const parseValue = (written: string): string | null => {
  if (!written.includes("\\")) {
    return written;
  }
  return written === String.raw`\N`
    ? null
    : written.replaceAll(ESCAPED, (_escape, character: string) => CONTROLS[character] ?? character);
};

/** Returns the values of a line; null is NULL. */
export const splitCopied = (line: string): readonly (string | null)[] =>
  line.split("\t").map(parseValue);

/** Yields the lines. Each is decoded by itself: V8 keeps long strings well after their last use. */
export function* splitLines(lines: Buffer): Generator<string, void, void> {
  let start = 0;
  for (let end = lines.indexOf(LINE_END); end >= 0; end = lines.indexOf(LINE_END, start)) {
    yield lines.toString("utf8", start, end);
    start = end + 1;
  }
}
