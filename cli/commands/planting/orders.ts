import { listFacts } from "../../../db/planting/facts.ts";
import type { StoredFact } from "../../../db/planting/facts.ts";
import {
  findPlantingOrder,
  findPlantingOrderByPublicId,
  listPlantingOrders,
} from "../../../db/planting/orders.ts";
import type { PlantingOrder } from "../../../domain/planting/order.ts";
import { plantingOrderWorkflowId } from "../../../workflows/plantingOrder.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";

const presentOrder = (order: PlantingOrder) => ({
  id: order.id,
  public_id: order.publicId,
  org_id: order.accountId,
  mode: order.mode,
  partner: order.partner,
  partner_reference: order.partnerReference,
  buyer: order.buyerName,
  trees: order.treeCount,
  refunded_trees: order.refundedCount,
  timeline: order.timeline,
  stage: order.stage,
  created_at: order.createdAt.toISOString(),
  planted_at: order.plantedAt?.toISOString() ?? null,
  verified_at: order.verifiedAt?.toISOString() ?? null,
  workflow_id: plantingOrderWorkflowId(order.id),
});

const presentFact = (fact: StoredFact) => ({
  stage: fact.stage,
  state: fact.state,
  reason: fact.reason,
  source: fact.source,
  occurred_at: fact.occurredAt.toISOString(),
  received_at: fact.receivedAt.toISOString(),
  content: fact.content,
});

export type ListOptions = {
  readonly org?: string;
  readonly stage?: PlantingOrder["stage"];
  readonly contradicted?: true;
  readonly limit: number;
  readonly json?: true;
};

export const listEvidenceOrders = async (
  { io, connections }: Context,
  { org, stage, contradicted, limit, json }: ListOptions,
): Promise<void> => {
  const orders = await listPlantingOrders(await connections.database(), {
    ...(org === undefined ? {} : { accountId: org }),
    ...(stage === undefined ? {} : { stage }),
    ...(contradicted ? { contradicted } : {}),
    limit,
  });
  if (json) {
    printJson(io, orders.map(presentOrder));
    return;
  }
  printTable(
    io,
    ["order", "public id", "buyer", "mode", "partner", "trees", "stage", "created"],
    orders.map((order) => [
      order.id,
      order.publicId,
      order.buyerName,
      order.mode,
      order.partner,
      order.treeCount,
      order.stage,
      order.createdAt,
    ]),
  );
};

export const showEvidenceOrder = async (
  { io, connections }: Context,
  name: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const db = await connections.database();
  const order = /^\d{1,9}$/u.test(name)
    ? await findPlantingOrder(db, Number(name))
    : await findPlantingOrderByPublicId(db, name);
  if (!order) {
    throw new CommandError(EXIT.notFound, `There is no planting order ${name}.`);
  }
  const facts = await listFacts(db, order.id);
  if (json) {
    printJson(io, { ...presentOrder(order), facts: facts.map(presentFact) });
    return;
  }
  printRecord(io, presentOrder(order));
  io.stdout.write("\n");
  printTable(
    io,
    ["stage", "state", "source", "occurred", "received", "reason"],
    facts.map((fact) => [
      fact.stage,
      fact.state,
      fact.source,
      fact.occurredAt,
      fact.receivedAt,
      fact.reason,
    ]),
  );
};
