import test from "ava";
import { creditOrder } from "../../../modules/planting/creditOrder.rules.ts";
import type { RecordedTrees } from "../../../modules/planting/creditOrder.rules.ts";

const ORDER = { id: 1, treeCount: 100 };

/** Trees of a record that are credited to an order. */
type Claim = RecordedTrees & { readonly orderId: number };

const record = (reference: string, trees: number): RecordedTrees => ({ reference, trees });
const own = (reference: string, trees: number): Claim => ({ reference, trees, orderId: ORDER.id });
const other = (reference: string, trees: number, orderId = 2): Claim => ({
  reference,
  trees,
  orderId,
});

/** Returns the own claims of the order, and the sum of all claims on each record. */
const split = (claims: readonly Claim[]) => ({
  own: claims
    .filter(({ orderId }) => orderId === ORDER.id)
    .map(({ reference, trees }) => record(reference, trees)),
  credited: [...Map.groupBy(claims, ({ reference }) => reference)].map(([reference, same]) =>
    record(
      reference,
      same.reduce((sum, { trees }) => sum + trees, 0),
    ),
  ),
});

for (const [title, records, claims, expected] of [
  ["an order without records is credited with nothing", [], [], []],
  [
    "records are used up in order, until the order has its trees",
    [record("a", 60), record("b", 30), record("c", 50), record("d", 5)],
    [],
    [record("a", 60), record("b", 30), record("c", 10)],
  ],
  [
    "trees of other orders are not credited again",
    [record("a", 60), record("b", 100)],
    [other("a", 40), other("a", 20, 3), other("b", 70)],
    [record("b", 30)],
  ],
  [
    "a record that shrank below its claims is credited to no further order",
    [record("a", 10), record("b", 5)],
    [other("a", 40)],
    [record("b", 5)],
  ],
  [
    "an incomplete order gets the trees by which its record grew",
    [record("a", 90)],
    [own("a", 60)],
    [record("a", 90)],
  ],
  [
    "an incomplete order loses trees by which its record shrank",
    [record("a", 40)],
    [own("a", 60)],
    [record("a", 40)],
  ],
  [
    "a complete order keeps its trees, whatever is recorded before or corrected after them",
    [record("new", 100), record("a", 10), record("b", 40)],
    [own("a", 60), own("b", 40)],
    [record("a", 60), record("b", 40)],
  ],
  [
    "a complete order is credited again when one of its records is deleted",
    [record("b", 40), record("c", 30)],
    [own("a", 60), own("b", 40)],
    [record("b", 40), record("c", 30)],
  ],
] as const satisfies readonly (readonly [
  string,
  readonly RecordedTrees[],
  readonly Claim[],
  readonly RecordedTrees[],
])[]) {
  test(title, (t) => {
    const { own: ownClaims, credited } = split(claims);
    t.deepEqual(creditOrder(ORDER, records, ownClaims, credited), expected);
  });
}
