import { peekBytes } from "./openInput.ts";

/** Returns the encoding of a text by its byte order mark, or by the zero byte beside its first ASCII character. */
const encodingOf = ([first, second]: Buffer): "utf-8" | "utf-16le" | "utf-16be" => {
  if ((first === 0xff && second === 0xfe) || second === 0) {
    return "utf-16le";
  }
  return (first === 0xfe && second === 0xff) || first === 0 ? "utf-16be" : "utf-8";
};

/** Decodes UTF-8 or UTF-16. Invalid bytes become U+FFFD. A byte order mark is dropped. */
async function* decodeText(input: AsyncIterable<Buffer>): AsyncGenerator<string, void, void> {
  const { start, all } = await peekBytes(input);
  const decoder = new TextDecoder(encodingOf(start));
  for await (const chunk of all) {
    yield decoder.decode(chunk, { stream: true });
  }
  yield decoder.decode();
}

/** Metadata may take 64 KiB, several times that when escaped; no valid line is longer than this. */
export const MAXIMUM_LINE_LENGTH = 1024 * 1024;

export type Line = {
  /** From 1. */
  readonly number: number;
  /** Null if it is too long to be held in memory. */
  readonly text: string | null;
};

/** Yields the lines of a text without line feeds, in constant memory. */
export async function* splitLines(bytes: AsyncIterable<Buffer>): AsyncGenerator<Line, void, void> {
  let number = 0;
  let rest: string | null = "";
  const endLine = (piece: string): Line => {
    number += 1;
    const text: string | null = rest === null ? null : rest + piece;
    rest = "";
    return { number, text: text !== null && text.length > MAXIMUM_LINE_LENGTH ? null : text };
  };
  for await (const chunk of decodeText(bytes)) {
    const pieces = chunk.split("\n");
    const last = pieces.pop() ?? "";
    for (const piece of pieces) {
      yield endLine(piece);
    }
    rest = rest === null || rest.length + last.length > MAXIMUM_LINE_LENGTH ? null : rest + last;
  }
  if (rest !== "") {
    yield endLine("");
  }
}

export const withoutReturn = (line: string): string =>
  line.endsWith("\r") ? line.slice(0, -1) : line;

/** Yields the lines of a text. A line that is too long is an error. */
export async function* readTextLines(
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<string, void, void> {
  for await (const { text } of splitLines(bytes)) {
    if (text === null) {
      throw new Error(`A line has more than ${MAXIMUM_LINE_LENGTH} characters.`);
    }
    yield withoutReturn(text);
  }
}

/** Why a text with U+FFFD cannot be imported. */
export const NOT_WELL_FORMED = "not well-formed UTF-8 or UTF-16";

/** Yields the lines that are not blank, or why a line cannot be read. */
export async function* readLines(
  lines: AsyncIterable<Line>,
): AsyncGenerator<
  { readonly number: number } & ({ readonly text: string } | { readonly problem: string }),
  void,
  void
> {
  for await (const { number, text } of lines) {
    if (text === null) {
      yield { number, problem: `longer than ${MAXIMUM_LINE_LENGTH} characters` };
    } else if (text.includes("\uFFFD")) {
      yield { number, problem: NOT_WELL_FORMED };
    } else if (text.trim() !== "") {
      yield { number, text: withoutReturn(text) };
    }
  }
}
