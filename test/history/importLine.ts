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

const AT = "2024-05-02T08:00:00.000Z";

/** Returns the line of a tree whose order another system has placed, and that of its evidence. */
export const orderedTree = (
  id: string,
  orderId: number,
  publicId: string,
): readonly [string, string] => [
  lineOf({ id, count: 4, created_at: AT }),
  JSON.stringify({
    kind: "evidence",
    tree_id: id,
    record_id: id,
    impact_type: "trees",
    impact_provider: "North Coast",
    status: "funds_distributed",
    provider_meta: { order_id: orderId, public_id: publicId },
    timeline: [
      {
        step: 1,
        event: "registered",
        title: "Registered",
        status: "completed",
        date: "2024-05-02",
        timestamp: AT,
        description: "d",
        evidence: { tree_id: id, record_id: id, registered_at: AT, count: 4 },
      },
      {
        step: 2,
        event: "funds_distributed",
        title: "Funds distributed",
        status: "completed",
        date: "2024-05-02",
        timestamp: AT,
        description: "d",
        evidence: { partner: "North Coast", order_id: orderId, order_public_id: publicId },
      },
      { step: 3, event: "allocated", title: "Later", status: "pending", description: "d" },
      { step: 4, event: "planted", title: "Later", status: "pending", description: "d" },
    ],
  }),
];
