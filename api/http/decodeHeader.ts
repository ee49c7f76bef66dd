/** Decodes a header that Node has read as Latin-1: clients send text beyond ASCII as UTF-8. */
export const decodeHeader = (given: string): string =>
  Buffer.from(given, "latin1").toString("utf8");
