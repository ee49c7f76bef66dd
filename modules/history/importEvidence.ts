import type { DatabaseTransactionConnection } from "slonik";
import {
  assignToOrder,
  findImportedOrder,
  insertImportedOrder,
  listImportedTrees,
  lockImportedTrees,
  raiseRevision,
  updateOrderSize,
} from "./importedEvidence.sql.ts";
import type { ImportedTree } from "./importedEvidence.sql.ts";
import { listIdentities } from "./importLines.sql.ts";
import type { ImportContext } from "./importRecords.ts";
import { contentErrorReason, isContentError } from "../../db/databaseErrors.ts";
import { deleteSummaries } from "../planting/summary.sql.ts";
import { deletePlantingOrders, lockPlantingOrder } from "../planting/orders.sql.ts";
import { addToTally } from "../planting/tallies.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ImportedEvidence, ImportedTreeOrder } from "./importedEvidence.rules.ts";
import { treeIdentity } from "./importedRecords.rules.ts";
import type { PlantingOrder } from "../planting/order.rules.ts";
import { tallyChange } from "../planting/tally.rules.ts";
import { digestOf, recordFacts } from "../planting/settleFacts.ts";
import { uuidOf } from "./assignIds.ts";
import type { EvidenceLine, LineOutcome } from "./importLine.ts";
import { newId } from "../../runtime/newId.ts";

const UNKNOWN: LineOutcome = {
  outcome: "bad",
  reason: "tree_id: no imported tree has this id; import the trees first",
};

type Ordered = ImportedEvidence & { readonly order: ImportedTreeOrder };

/** Trees of one order with the same evidence have the same key: they share an order here. */
const keyOf = ({ source, partnerName, shape, order, facts }: Ordered): string => {
  const { orderId, publicId, buyerName } = order;
  return uuidOf(
    JSON.stringify([source, partnerName, shape, orderId, publicId, buyerName, facts.map(digestOf)]),
  );
};

/** Decides what a line changes about its tree. A tree follows evidence with further stages, and nothing else. */
const decide = (evidence: Ordered, key: string, tree: ImportedTree): LineOutcome => {
  if (tree.orderId === null) {
    return { outcome: "new" };
  }
  if (tree.orderKey === null) {
    return {
      outcome: "conflict",
      reason: `the trees are in planting order ${tree.orderPublicId ?? ""} of this service`,
    };
  }
  if (tree.orderKey === key) {
    return { outcome: "known" };
  }
  if (tree.importedFrom !== evidence.source || tree.importedOrderId !== evidence.order.orderId) {
    return { outcome: "conflict", reason: "evidence of another order is there" };
  }
  const digests = evidence.facts.map((fact) => ({ stage: fact.stage, digest: digestOf(fact) }));
  const isRecorded = (fact: { readonly stage: string; readonly digest: string }) =>
    tree.facts.some(({ stage, digest }) => stage === fact.stage && digest === fact.digest);
  const further = digests.filter((fact) => !isRecorded(fact));
  const other = further.find(({ stage }) => tree.facts.some((fact) => fact.stage === stage));
  if (other) {
    return { outcome: "conflict", reason: `${other.stage} is there with other details` };
  }
  if (further.length === 0) {
    return { outcome: "known" };
  }
  const missing = tree.facts.find(
    (fact) => fact.isWithdrawn || !digests.some(({ stage }) => stage === fact.stage),
  );
  return missing
    ? {
        outcome: "conflict",
        reason: `${missing.stage} was ${missing.isWithdrawn ? "withdrawn" : "recorded"} here; use \`impact evidence record\``,
      }
    : { outcome: "new" };
};

const sumOf = (trees: readonly ImportedTree[]) => ({
  treeCount: trees.reduce((sum, { count }) => sum + count, 0),
  refundedCount: trees.reduce((sum, { refundedCount }) => sum + refundedCount, 0),
});

const getLockedOrder = async (
  transaction: DatabaseTransactionConnection,
  id: number,
): Promise<PlantingOrder> => {
  const order = await lockPlantingOrder(transaction, id);
  if (!order) {
    throw new Error(`The planting order ${id} was found, and is gone.`);
  }
  return order;
};

/** Changes how many trees an order has, and the tally with it. An order without trees is deleted. */
const resizeOrder = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  trees: readonly ImportedTree[],
  sign: 1 | -1,
): Promise<void> => {
  const { treeCount, refundedCount } = sumOf(trees);
  const after = {
    ...order,
    treeCount: order.treeCount + sign * treeCount,
    refundedCount: order.refundedCount + sign * refundedCount,
  };
  await addToTally(transaction, order, tallyChange(order, after));
  await (after.treeCount === 0
    ? deletePlantingOrders(transaction, [order.id])
    : updateOrderSize(transaction, after));
};

/** Creates the order of a key with its facts, or adds trees to it. Returns its id. */
const getOrCreateOrder = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  key: string,
  { source, partnerName, shape, order: imported, facts }: Ordered,
  trees: readonly ImportedTree[],
  now: Date,
): Promise<number> => {
  const created = await insertImportedOrder(transaction, {
    ...owner,
    ...sumOf(trees),
    source,
    partnerName,
    shape,
    key,
    orderId: imported.orderId,
    publicId: imported.publicId,
    buyerName: imported.buyerName,
    ownPublicId: `po_${newId().replaceAll("-", "")}`,
    createdAt: new Date(facts[0]?.occurred_at ?? now),
    importedAt: now,
  });
  const id = created ?? (await findImportedOrder(transaction, owner, key));
  const before = await getLockedOrder(transaction, id);
  if (created === null) {
    await resizeOrder(transaction, before, trees, 1);
    await deleteSummaries(transaction, before);
    return id;
  }
  await recordFacts(transaction, before, { facts, source: "import", now });
  return id;
};

/**
 * Takes trees out of the orders that they are in, because their evidence has gone further.
 * @returns the highest revision of these orders; 0 if there are none
 */
const leaveOrders = async (
  transaction: DatabaseTransactionConnection,
  trees: readonly ImportedTree[],
): Promise<number> => {
  const leaving = Map.groupBy(
    trees.filter(({ orderId }) => orderId !== null),
    ({ orderId }) => orderId ?? 0,
  );
  let revision = 0;
  for (const [orderId, members] of [...leaving].toSorted(([left], [right]) => left - right)) {
    const order = await getLockedOrder(transaction, orderId);
    revision = Math.max(revision, order.revision);
    await resizeOrder(transaction, order, members, -1);
  }
  return revision;
};

type Placed = { readonly line: EvidenceLine; readonly evidence: Ordered };

type Decided = readonly [EvidenceLine, LineOutcome];

/** Records the evidence of lines with one key in one transaction. */
const importGroup = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  key: string,
  group: readonly Placed[],
  now: Date,
): Promise<readonly Decided[]> => {
  const locked = await lockImportedTrees(
    transaction,
    owner,
    group.map(({ evidence }) => evidence.treeId),
  );
  const trees = new Map(locked.map((tree) => [tree.treeId, tree]));
  const joining = new Map<string, { readonly tree: ImportedTree; readonly evidence: Ordered }>();
  const outcomes = group.map(({ line, evidence }): Decided => {
    const tree = trees.get(evidence.treeId);
    if (!tree) {
      return [line, UNKNOWN];
    }
    const decision = decide(evidence, key, tree);
    if (decision.outcome !== "new") {
      return [line, decision];
    }
    if (joining.has(tree.id)) {
      return [line, { outcome: "known" }];
    }
    joining.set(tree.id, { tree, evidence });
    return [line, decision];
  });
  const [first] = joining.values();
  if (first) {
    const members = [...joining.values()].map(({ tree }) => tree);
    const leftRevision = await leaveOrders(transaction, members);
    const orderId = await getOrCreateOrder(transaction, owner, key, first.evidence, members, now);
    await raiseRevision(transaction, orderId, leftRevision + 1);
    await assignToOrder(
      transaction,
      orderId,
      [...joining.values()].map(({ tree: { id }, evidence: { order } }) => ({
        id,
        treeOrderId: order.treeOrderId,
        treeOrderPublicId: order.treeOrderPublicId,
        treeAmount: order.treeAmount,
      })),
    );
  }
  return outcomes;
};

/** Returns the lines whose trees the other system had ordered. */
const placedOf = (lines: readonly EvidenceLine[]): readonly Placed[] =>
  lines.flatMap((line) => {
    const { order } = line.evidence;
    return order === null ? [] : [{ line, evidence: { ...line.evidence, order } }];
  });

const identityOf = (treeId: string): string => uuidOf(treeIdentity(treeId));

/** Decides what an import would do. The trees of a line may be new in the same files, which the database does not know. */
const decideWithoutLocks = async (
  { db, runId, owner }: ImportContext,
  placed: readonly Placed[],
): Promise<readonly Decided[]> => {
  const ids = placed.map(({ evidence }) => evidence.treeId);
  const trees = new Map(
    (await listImportedTrees(db, owner, ids)).map((tree) => [tree.treeId, tree]),
  );
  const inFiles = new Set(await listIdentities(db, runId, ids.map(identityOf)));
  return placed.map(({ line, evidence }) => {
    const tree = trees.get(evidence.treeId);
    if (tree) {
      return [line, decide(evidence, keyOf(evidence), tree)];
    }
    return [line, inFiles.has(identityOf(evidence.treeId)) ? { outcome: "new" } : UNKNOWN];
  });
};

/**
 * Imports the evidence that another system has shown of imported trees: its orders and facts, marked with its name. Trees
 * with the same evidence share an order, which no workflow polls.
 * @returns the outcome of each line
 */
export const importEvidence = async (
  context: ImportContext,
  lines: readonly EvidenceLine[],
): Promise<ReadonlyMap<EvidenceLine, LineOutcome>> => {
  const { db, clock, owner, isDryRun } = context;
  // Trees that were only registered have no further evidence.
  const outcomes = new Map<EvidenceLine, LineOutcome>(
    lines.map((line) => [line, { outcome: "known" }]),
  );
  const placed = placedOf(lines);
  if (isDryRun) {
    return new Map([...outcomes, ...(await decideWithoutLocks(context, placed))]);
  }
  for (const [key, group] of Map.groupBy(placed, ({ evidence }) => keyOf(evidence))) {
    let decided: readonly Decided[];
    try {
      decided = await db.transaction((transaction) =>
        importGroup(transaction, owner, key, group, clock.now()),
      );
    } catch (error) {
      if (!isContentError(error)) {
        throw error;
      }
      const reason = contentErrorReason(error);
      decided = group.map(({ line }) => [line, { outcome: "bad", reason }]);
    }
    for (const [line, outcome] of decided) {
      outcomes.set(line, outcome);
    }
  }
  return outcomes;
};
