import { decodeText } from "../../input/decodeText.ts";

/** A record of a CSV file as it is written, numbered by the line on which it starts, or why it cannot be read. */
export type CsvRecord = { readonly number: number } & (
  | { readonly text: string }
  | { readonly problem: string }
);

/** Thrown if a quote stays open: then the start of the next record is unknown. */
export class OpenQuoteError extends Error {
  override readonly name = "OpenQuoteError";
  /** The line on which the record starts. */
  readonly number: number;

  constructor(number: number) {
    super(`A quote is not closed in the record that starts on line ${number}.`);
    this.number = number;
  }
}

/** Metadata may take 64 KiB, several times that when escaped; no valid record is longer than this. */
const MAXIMUM_CHARACTERS = 1024 * 1024;

const hasOddQuotes = (text: string): boolean => {
  let isOdd = false;
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at + 1)) {
    isOdd = !isOdd;
  }
  return isOdd;
};

/**
 * Splits a CSV file into its non-empty records. A record ends with the first line after which its quotes are even in
 * number, so whatever else is wrong with it, the next one starts on the next line.
 * @throws OpenQuoteError if a quote is not closed within the longest record
 */
export async function* splitCsv(
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<CsvRecord, void, void> {
  let [line, start] = [1, 1];
  let text = "";
  let [isQuoted, isTooLong] = [false, false];

  const add = (piece: string): void => {
    isQuoted = hasOddQuotes(piece) ? !isQuoted : isQuoted;
    text += piece;
    if (text.length > MAXIMUM_CHARACTERS) {
      if (isQuoted) {
        throw new OpenQuoteError(start);
      }
      isTooLong = true;
      text = "";
    }
  };

  /** Returns the record that ends here; null if it is empty. */
  const end = (): CsvRecord | null => {
    const written = text.endsWith("\r") ? text.slice(0, -1) : text;
    const record: CsvRecord = isTooLong
      ? { number: start, problem: `longer than ${MAXIMUM_CHARACTERS} characters` }
      : { number: start, text: written };
    const isEmpty = !isTooLong && written.trim() === "";
    [text, isTooLong] = ["", false];
    return isEmpty ? null : record;
  };

  for await (const chunk of decodeText(bytes)) {
    let from = 0;
    for (let feed = chunk.indexOf("\n"); feed !== -1; feed = chunk.indexOf("\n", from)) {
      add(chunk.slice(from, feed));
      from = feed + 1;
      line += 1;
      if (isQuoted) {
        text += "\n";
        continue;
      }
      const record = end();
      start = line;
      if (record) {
        yield record;
      }
    }
    add(chunk.slice(from));
  }
  if (isQuoted) {
    throw new OpenQuoteError(start);
  }
  const last = end();
  if (last) {
    yield last;
  }
}

/** Returns the end of a quoted cell that starts at a position: the position of its closing quote; -1 without one. */
const findClosingQuote = (text: string, start: number): number => {
  let at = text.indexOf('"', start + 1);
  while (at !== -1 && text[at + 1] === '"') {
    at = text.indexOf('"', at + 2);
  }
  return at;
};

/** Returns the cells of a record (RFC 4180), or null if its quotes are misplaced. */
export const splitCells = (text: string): readonly string[] | null => {
  if (!text.includes('"')) {
    return text.split(",");
  }
  const cells: string[] = [];
  for (let at = 0; ; at += 1) {
    if (text[at] === '"') {
      const close = findClosingQuote(text, at);
      if (close === -1) {
        return null;
      }
      cells.push(text.slice(at + 1, close).replaceAll('""', '"'));
      at = close + 1;
    } else {
      const comma = text.indexOf(",", at);
      const cell = text.slice(at, comma === -1 ? text.length : comma);
      if (cell.includes('"')) {
        return null;
      }
      cells.push(cell);
      at += cell.length;
    }
    if (at >= text.length) {
      return cells;
    }
    if (text[at] !== ",") {
      return null;
    }
  }
};
