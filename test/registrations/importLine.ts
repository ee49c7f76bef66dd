export type Fields = Readonly<Record<string, unknown>>;

/** A line of an import, with what the test does not care about filled in. */
export const lineOf = (fields: Fields = {}): string =>
  JSON.stringify({ kind: "tree", count: 1, created_at: "2024-05-01T09:30:00Z", ...fields });
