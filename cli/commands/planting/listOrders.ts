import { listPlantingOrders } from "../../../db/planting/orders.ts";
import type { OrderStage } from "../../../domain/planting/order.ts";
import { getOrganizationOrStore } from "../../../services/accounts/getOrganizationOrStore.ts";
import type { CliContext } from "../../context.ts";
import { printJson, printRows } from "../../output/print.ts";
import { sayIfMore } from "../../output/sayIfMore.ts";
import { presentOrder } from "./presentOrder.ts";

export type ListOptions = {
  readonly org?: string;
  readonly stage?: OrderStage;
  readonly contradicted?: true;
  readonly limit: number;
  readonly json?: true;
};

export const listOrders = async (
  { io, connections }: CliContext,
  { org, stage, contradicted, limit, json }: ListOptions,
): Promise<void> => {
  const db = await connections.database();
  if (org !== undefined) {
    await getOrganizationOrStore(db, org);
  }
  const found = await listPlantingOrders(db, {
    ...(org === undefined ? {} : { accountId: org }),
    ...(stage === undefined ? {} : { stage }),
    ...(contradicted ? { contradicted } : {}),
    limit: limit + 1,
  });
  const orders = found.slice(0, limit);
  if (json) {
    const deployment = await connections.deploymentName();
    printJson(
      io,
      orders.map((order) => presentOrder(deployment, order)),
    );
  } else {
    printRows(io, orders, {
      order: (order) => String(order.id),
      "public id": (order) => order.publicId,
      "in evidence": (order) =>
        order.shownPublicId === order.publicId ? null : order.shownPublicId,
      buyer: (order) => order.buyerName,
      mode: (order) => order.mode,
      partner: (order) => order.partner,
      trees: (order) => order.treeCount,
      stage: (order) => order.stage,
      created: (order) => order.createdAt,
    });
  }
  sayIfMore(io, found.length, limit);
};
