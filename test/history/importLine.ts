export type Fields = Readonly<Record<string, unknown>>;

/** Returns a line of an import with defaults for the fields that a test does not set. */
export const lineOf = (fields: Fields = {}): string =>
  JSON.stringify({
    kind: "tree",
    ...("idempotency_key" in fields ? {} : { id: crypto.randomUUID() }),
    count: 1,
    created_at: "2024-05-01T09:30:00Z",
    ...fields,
  });
