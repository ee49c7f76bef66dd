import type { DatabasePool } from "slonik";
import { listFacts } from "../../db/planting/plantingFacts.ts";
import { findPlantingOrder, markPlantingOrderLookedAt } from "../../db/planting/plantingOrders.ts";
import { isTimelineComplete } from "../../domain/planting/buildTreeEvidence.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import type { PlantingOrder } from "../../domain/planting/planting.ts";
import type { Planting } from "../../providers/planting/createPlanting.ts";
import type { OrderAtPartner, PlantingPartner } from "../../providers/planting/partner.ts";
import { recordPlantingFacts } from "./recordPlantingFacts.ts";

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly planting: Planting;
};

const readPlantingOrder = async (
  { db, planting }: Dependencies,
  orderId: number,
): Promise<{
  readonly order: PlantingOrder;
  readonly atPartner: OrderAtPartner;
  readonly partner: PlantingPartner;
}> => {
  const order = await findPlantingOrder(db, orderId);
  if (!order) {
    throw new DomainError("record_not_found", "failed to find planting order");
  }
  const partner = planting.findPartner(order.partner);
  if (!partner) {
    throw new Error(`Order ${order.publicId} is with ${order.partner}, which is not set up here.`);
  }
  const facts = await listFacts(db, orderId);
  const reached = facts.filter(({ state }) => state === "accepted");
  return { order, partner, atPartner: { ...order, reached } };
};

/** Hands an order over to its partner, where that can be done from here, once; repeating it does no harm. */
export const placePlantingOrder = async (
  deps: Dependencies,
  orderId: number,
  signal: AbortSignal,
): Promise<void> => {
  const { order, partner, atPartner } = await readPlantingOrder(deps, orderId);
  if (order.stage !== "gathered") {
    return;
  }
  const reference = await partner.placeOrder(atPartner, signal);
  if (reference === null) {
    return;
  }
  await recordPlantingFacts(
    deps,
    orderId,
    [
      {
        stage: "funds_distributed",
        occurred_at: deps.clock.now().toISOString(),
        partner_reference: reference,
      },
    ],
    "partner",
  );
};

/** Whether looking brings no more of an order. What is reported of it later is recorded all the same. */
const isFollowedToItsEnd = (
  { timeline, stage }: PlantingOrder,
  { isVerificationFollowed }: PlantingPartner,
): boolean =>
  stage === "planted_and_verified" ||
  (!isVerificationFollowed && isTimelineComplete(timeline, stage));

/** Asks the partner what has happened to an order, and records it. */
export const followPlantingOrder = async (
  deps: Dependencies,
  orderId: number,
  signal: AbortSignal,
): Promise<{ readonly isFinished: boolean; readonly nextLookMs: number | null }> => {
  const { db, clock } = deps;
  const { order, partner, atPartner } = await readPlantingOrder(deps, orderId);
  if (isFollowedToItsEnd(order, partner)) {
    await markPlantingOrderLookedAt(db, orderId, clock.now(), true);
    return { isFinished: true, nextLookMs: null };
  }
  const { facts, nextLookMs } = await partner.readNews(atPartner, clock.now(), signal);
  await recordPlantingFacts(deps, orderId, facts, "partner");
  const after = await findPlantingOrder(db, orderId);
  const isFinished = after !== null && isFollowedToItsEnd(after, partner);
  await markPlantingOrderLookedAt(db, orderId, clock.now(), isFinished);
  return { isFinished, nextLookMs };
};
