import { listFacts } from "../../../db/planting/facts.ts";
import type { StoredFact } from "../../../db/planting/facts.ts";
import { findPlantingOrder, findPlantingOrderByPublicId } from "../../../db/planting/orders.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";
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

/** @param id the order's number or its public id */
export const showOrder = async (
  { io, connections }: Context,
  id: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const db = await connections.database();
  const order = /^\d{1,9}$/u.test(id)
    ? await findPlantingOrder(db, Number(id))
    : await findPlantingOrderByPublicId(db, id);
  if (!order) {
    throw new CommandError(
      EXIT.notFound,
      `Planting order ${id} not found. See impact evidence order list.`,
    );
  }
  const facts = await listFacts(db, order.id);
  const presented = presentOrder(await connections.deploymentName(), order);
  if (json) {
    printJson(io, { ...presented, facts: facts.map(presentFact) });
    return;
  }
  printRecord(io, {
    order: order.id,
    "public id": order.publicId,
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
  printTable(
    io,
    ["fact", "stage", "state", "source", "occurred", "received", "withdrawn by", "reason"],
    facts.map((fact) => [
      fact.id,
      fact.stage,
      fact.state,
      fact.source,
      fact.occurredAt,
      fact.receivedAt,
      fact.withdrawnBy,
      fact.reason,
    ]),
  );
};
