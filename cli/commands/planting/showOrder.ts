import type { DatabasePool } from "slonik";
import { listFacts } from "../../../db/planting/facts.ts";
import type { StoredFact } from "../../../db/planting/facts.ts";
import { listPlantingOrdersWithId } from "../../../db/planting/orders.ts";
import type { PlantingOrder } from "../../../domain/planting/order.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { printJson, printRecord, printRows } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { presentOrder } from "./presentOrder.ts";

const presentFact = (fact: StoredFact) => ({
  fact: fact.id,
  stage: fact.stage,
  state: fact.state,
  reason: fact.reason,
  source: fact.source,
  occurred_at: fact.occurredAt.toISOString(),
  received_at: fact.receivedAt.toISOString(),
  withdrawn_at: fact.withdrawnAt?.toISOString() ?? null,
  withdrawn_by: fact.withdrawnBy,
  content: fact.content,
});

/** The most orders that an error names. */
const NAMED = 10;

/** Returns the only order that has an id, of those that operators and clients see. */
const getOrder = async (db: DatabasePool, given: string): Promise<PlantingOrder> => {
  const found = await listPlantingOrdersWithId(db, given, NAMED);
  const [order, ...others] = found;
  if (!order) {
    throw new CommandError(
      EXIT.notFound,
      `Planting order ${given} not found. See impact evidence order list.`,
    );
  }
  if (others.length > 0) {
    const lines = found.map(
      ({ id, publicId, accountId, shownId, shownPublicId }) =>
        `  ${publicId}: order ${id} of account ${accountId}, in evidence ${shownId} and ${shownPublicId}`,
    );
    throw new CommandError(
      EXIT.failed,
      `Several planting orders have the id ${given}. Name one by its public id:\n${lines.join("\n")}`,
    );
  }
  return order;
};

/** @param id the order's number or public id, here or in evidence */
export const showOrder = async (
  { io, connections }: CliContext,
  id: string,
  { json }: JsonOption,
): Promise<void> => {
  const db = await connections.database();
  const order = await getOrder(db, id);
  const facts = await listFacts(db, order.id);
  const presented = presentOrder(await connections.deploymentName(), order);
  if (json) {
    printJson(io, { ...presented, facts: facts.map(presentFact) });
    return;
  }
  printRecord(io, {
    order: String(order.id),
    "public id": order.publicId,
    "order in evidence": String(order.shownId),
    "public id in evidence": order.shownPublicId,
    account: order.accountId,
    buyer: order.buyerName,
    mode: order.mode,
    partner: order.partner,
    "partner reference": order.partnerReference,
    trees: order.treeCount,
    "refunded trees": order.refundedCount,
    timeline: order.timeline,
    stage: order.stage,
    created: order.createdAt,
    planted: order.plantedAt,
    verified: order.verifiedAt,
    workflow: presented.workflow_id,
  });
  io.stdout.write("\n");
  printRows(io, facts, {
    fact: (fact) => String(fact.id),
    stage: (fact) => fact.stage,
    state: (fact) => fact.state,
    source: (fact) => fact.source,
    occurred: (fact) => fact.occurredAt,
    received: (fact) => fact.receivedAt,
    "withdrawn by": (fact) => fact.withdrawnBy,
    reason: (fact) => fact.reason,
  });
};
