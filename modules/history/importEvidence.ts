import type { DatabaseTransactionConnection } from "slonik";
import { v5 } from "uuid";
import {
  assignToOrder,
  getOrInsertImportedOrder,
  listImportedTrees,
  lockImportedTrees,
  updateOrderSize,
} from "./importedEvidence.sql.ts";
import type { ImportedTree } from "./importedEvidence.sql.ts";
import { hashOf } from "./importRecords.ts";
import type { ImportContext } from "./importRecords.ts";
import { contentErrorReason, isContentError } from "../../db/databaseErrors.ts";
import { deleteSummaries } from "../planting/summary.sql.ts";
import { deletePlantingOrder, lockPlantingOrder } from "../planting/orders.sql.ts";
import { addToTallies } from "../planting/tallies.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ImportedEvidence, ImportedTreeOrder } from "./importedEvidence.rules.ts";
import { treeIdentity } from "./importedRecords.rules.ts";
import type { PlantingOrder } from "../planting/orders.sql.ts";
import { ORDER_NOT_FOUND } from "../planting/order.rules.ts";
import { requireFound } from "../../runtime/errors.rules.ts";
import { tallyChanges } from "../planting/tally.rules.ts";
import { digestOf, changeFacts } from "../planting/settleFacts.ts";
import { conflict } from "./importLine.ts";
import type { EvidenceLine, LineOutcome } from "./importLine.ts";
import { newId } from "../../runtime/newId.ts";

const UNKNOWN: LineOutcome = {
  outcome: "bad",
  reason: "tree_id: no imported tree has this id; import the trees first",
};

/** A line whose trees the other system had ordered. */
type Placed = Omit<ImportedEvidence, "order"> & {
  readonly order: ImportedTreeOrder;
  /** Trees of one order with the same evidence have the same key: they share an order here. */
  readonly key: string;
  readonly line: EvidenceLine;
};

const placedOf = (line: EvidenceLine): readonly Placed[] => {
  const { order, ...evidence } = line.evidence;
  if (order === null) {
    return [];
  }
  const { source, partnerName, shape, facts } = evidence;
  const { orderId, publicId, buyerName } = order;
  const digests = facts.map(digestOf);
  const shared = [source, partnerName, shape, orderId, publicId, buyerName, digests];
  return [{ ...evidence, order, line, key: v5(JSON.stringify(shared), v5.URL) }];
};

/** Decides what a line changes about its tree. A tree follows evidence with further stages, and nothing else. */
const decide = ({ key, source, order, facts }: Placed, tree: ImportedTree): LineOutcome => {
  if (tree.orderId === null) {
    return { outcome: "new" };
  }
  const isSameOrder = tree.importedFrom === source && tree.importedOrderId === order.orderId;
  const given = facts.map(digestOf);
  const recorded = new Set(tree.facts.map(({ digest }) => digest));
  if (tree.orderKey === key || (isSameOrder && given.every((digest) => recorded.has(digest)))) {
    return { outcome: "already_there" };
  }
  const isFurther = tree.facts.every((fact) => given.includes(fact.digest) && !fact.isWithdrawn);
  return isSameOrder && isFurther
    ? { outcome: "new" }
    : conflict(`other evidence is there, of the planting order ${tree.orderPublicId ?? ""}`);
};

const sumOf = (trees: readonly ImportedTree[]) => ({
  treeCount: trees.reduce((sum, { count }) => sum + count, 0),
  refundedCount: trees.reduce((sum, { refundedCount }) => sum + refundedCount, 0),
});

/** Changes how many trees an order has, and the tally with it. Returns the order before. One without trees is deleted. */
const resizeOrder = async (
  transaction: DatabaseTransactionConnection,
  id: number,
  trees: readonly ImportedTree[],
  sign: 1 | -1,
): Promise<PlantingOrder> => {
  const before = requireFound(await lockPlantingOrder(transaction, id), ORDER_NOT_FOUND);
  const { treeCount, refundedCount } = sumOf(trees);
  const after = {
    ...before,
    treeCount: before.treeCount + sign * treeCount,
    refundedCount: before.refundedCount + sign * refundedCount,
  };
  await addToTallies(transaction, tallyChanges([{ before, after }]));
  await (after.treeCount === 0
    ? deletePlantingOrder(transaction, id)
    : updateOrderSize(transaction, after));
  return before;
};

/** Creates the order of the evidence with its facts, or adds trees to it. Returns its id. */
const getOrCreateOrder = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  { facts, ...evidence }: Placed,
  trees: readonly ImportedTree[],
  now: Date,
): Promise<number> => {
  const { id, isNew } = await getOrInsertImportedOrder(transaction, {
    ...owner,
    ...sumOf(trees),
    ...evidence,
    ...evidence.order,
    ownPublicId: `po_${newId().replaceAll("-", "")}`,
    createdAt: new Date(facts[0]?.occurred_at ?? now),
    importedAt: now,
  });
  const before = await resizeOrder(transaction, id, isNew ? [] : trees, 1);
  await (isNew
    ? changeFacts(transaction, before, { facts, source: "import", now })
    : deleteSummaries(transaction, before));
  return id;
};

/** Decides about lines. Returns the trees that they change, each with the first line that does. */
const decideAll = (
  { outcomes, read }: ImportContext,
  lines: readonly Placed[],
  trees: readonly ImportedTree[],
): ReadonlyMap<ImportedTree, Placed> => {
  const byId = new Map(trees.map((tree) => [tree.treeId, tree]));
  const joining = new Map<ImportedTree, Placed>();
  for (const placed of lines) {
    const tree = byId.get(placed.treeId);
    if (tree) {
      const decision = decide(placed, tree);
      const isRepeated = decision.outcome === "new" && joining.has(tree);
      outcomes.set(placed.line, isRepeated ? { outcome: "already_there" } : decision);
      if (decision.outcome === "new" && !isRepeated) {
        joining.set(tree, placed);
      }
    } else {
      // In a dry run, the tree may be new in the same files.
      const isRead = read?.has(hashOf(treeIdentity(placed.treeId))) === true;
      outcomes.set(placed.line, isRead ? { outcome: "new" } : UNKNOWN);
    }
  }
  return joining;
};

/** Records the evidence of lines with one key, or decides about lines in a dry run. */
const importGroup = async (
  transaction: DatabaseTransactionConnection,
  context: ImportContext,
  group: readonly Placed[],
): Promise<void> => {
  const { clock, owner, read } = context;
  const list = read ? listImportedTrees : lockImportedTrees;
  const ids = group.map(({ treeId }) => treeId);
  const joining = decideAll(context, group, await list(transaction, owner, ids));
  const [evidence] = joining.values();
  if (!evidence || read) {
    return;
  }
  // Trees whose evidence has gone further leave the orders that they are in.
  const trees = [...joining.keys()];
  const leaving = Map.groupBy(trees, ({ orderId }) => orderId);
  for (const orderId of [...leaving.keys()].filter((id) => id !== null).toSorted((a, b) => a - b)) {
    await resizeOrder(transaction, orderId, leaving.get(orderId) ?? [], -1);
  }
  const orderId = await getOrCreateOrder(transaction, owner, evidence, trees, clock.now());
  const joined = Array.from(joining, ([{ id }, { order }]) => ({ ...order, id }));
  await assignToOrder(transaction, orderId, joined);
};

/**
 * Imports the evidence that another system has shown of imported trees: its orders and facts, marked with its name. Trees
 * with the same evidence share an order, which no workflow polls. Those that were only registered have no further evidence.
 */
export const importEvidence = async (context: ImportContext, lines: readonly EvidenceLine[]) => {
  // A dry run reads all trees of a batch together.
  const groups = Map.groupBy(lines.flatMap(placedOf), ({ key }) => (context.read ? "" : key));
  for (const group of groups.values()) {
    try {
      await context.db.transaction((transaction) => importGroup(transaction, context, group));
    } catch (error) {
      if (!isContentError(error)) {
        throw error;
      }
      const reason = contentErrorReason(error);
      group.forEach(({ line }) => context.outcomes.set(line, { outcome: "bad", reason }));
    }
  }
};
