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

const credits = test.macro({
  exec: (
    t,
    records: readonly RecordedTrees[],
    claims: readonly Claim[],
    expected: readonly RecordedTrees[],
  ) => {
    const { own: ownClaims, credited } = split(claims);
    t.deepEqual(creditOrder(ORDER, records, ownClaims, credited), expected);
  },
  title: (title = "") => title,
});

test("an order without records is credited with nothing", credits, [], [], []);
test(
  "records are used up in order, until the order has its trees",
  credits,
  [record("a", 60), record("b", 30), record("c", 50), record("d", 5)],
  [],
  [record("a", 60), record("b", 30), record("c", 10)],
);
test(
  "trees of other orders are not credited again",
  credits,
  [record("a", 60), record("b", 100)],
  [other("a", 40), other("a", 20, 3), other("b", 70)],
  [record("b", 30)],
);
test(
  "a record that shrank below its claims is credited to no further order",
  credits,
  [record("a", 10), record("b", 5)],
  [other("a", 40)],
  [record("b", 5)],
);
test(
  "an incomplete order gets the trees by which its record grew",
  credits,
  [record("a", 90)],
  [own("a", 60)],
  [record("a", 90)],
);
test(
  "an incomplete order loses trees by which its record shrank",
  credits,
  [record("a", 40)],
  [own("a", 60)],
  [record("a", 40)],
);
test(
  "a complete order keeps its trees, whatever is recorded before or corrected after them",
  credits,
  [record("new", 100), record("a", 10), record("b", 40)],
  [own("a", 60), own("b", 40)],
  [record("a", 60), record("b", 40)],
);
test(
  "a complete order is credited again when one of its records is deleted",
  credits,
  [record("b", 40), record("c", 30)],
  [own("a", 60), own("b", 40)],
  [record("b", 40), record("c", 30)],
);

test("crediting an order takes time in proportion to its records and claims", (t) => {
  const size = 1000;
  let reads = 0;
  const counted = <Item extends object>(items: readonly Item[]): readonly Item[] =>
    items.map(
      (item) =>
        new Proxy(item, {
          get: (target, field): unknown => {
            reads += 1;
            return Reflect.get(target, field);
          },
        }),
    );
  const records = Array.from({ length: size }, (_, index) => record(`r${index}`, 2));
  const ofOthers = records.map(({ reference }) => record(reference, 1));
  const order = { treeCount: size };
  const claims = creditOrder(order, counted(records), [], counted(ofOthers));
  t.is(claims.length, size);
  const ofAll = records.map(({ reference }) => record(reference, 2));
  t.deepEqual(creditOrder(order, counted(records), counted(claims), counted(ofAll)), claims);
  t.true(reads < 50 * size, `${reads} reads`);
});
