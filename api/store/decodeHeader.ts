/** A header's text. Node reads its bytes as Latin-1; clients that write more than ASCII write UTF-8. */
export const decodeHeader = (given: string): string =>
  Buffer.from(given, "latin1").toString("utf8");
