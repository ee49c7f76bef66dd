import { listFacts } from "./facts.sql.ts";
import { findPlantingOrder, markPlantingOrderPolled } from "./orders.sql.ts";
import type { PlantingOrder } from "./orders.sql.ts";
import { isTimelineComplete } from "./timeline.rules.ts";
import type { PlantingPartner } from "./partner.ts";
import type { PlantingContext } from "./context.ts";
import type { DatabasePool } from "slonik";
import { Gate } from "../../runtime/gate.ts";
import { creditOrder, lockClaims } from "./claims.sql.ts";
import type { RecordedTrees } from "./claims.sql.ts";
import { recordPlantingFacts } from "./recordPlantingFacts.ts";
import { mustExist, requireFound } from "../../runtime/errors.rules.ts";
import { ORDER_NOT_FOUND, ORDER_STAGES } from "./order.rules.ts";
import type { OrderStage } from "./order.rules.ts";

const readPlantingOrder = async ({ db, planting }: PlantingContext, orderId: number) => {
  const order = requireFound(await findPlantingOrder(db, orderId), ORDER_NOT_FOUND);
  const partner = mustExist(
    planting.findPartner(order.partner),
    `Planting order ${order.publicId} is with ${order.partner}, which is not configured here.`,
  );
  const reached = (await listFacts(db, orderId)).filter(({ state }) => state === "accepted");
  return { order, partner, partnerOrder: { ...order, reached } };
};

/** Places an order with its partner, unless an operator has to. Repeating it does no harm. */
export const placePlantingOrder = async (
  context: PlantingContext,
  orderId: number,
  signal: AbortSignal,
): Promise<void> => {
  const { order, partner, partnerOrder } = await readPlantingOrder(context, orderId);
  if (order.stage !== "created") {
    return;
  }
  const reference = await partner.placeOrder(partnerOrder, signal);
  if (reference === null) {
    return;
  }
  const occurred_at = context.clock.now().toISOString();
  const fact = { stage: "funds_distributed", occurred_at, partner_reference: reference } as const;
  // Another attempt may have placed it meanwhile. Its fact has another time and would be contradicted.
  const unlessPlaced = ({ stage }: PlantingOrder) => (stage === "created" ? [fact] : []);
  await recordPlantingFacts(context, orderId, unlessPlaced, "partner");
};

/** Calls wait for each other here. In the database, each would do so with a connection, and leave none for billing. */
const claims = new Gate({ places: 1, maximumWaitMs: Infinity });

export const claimTrees = (
  { db }: { readonly db: DatabasePool },
  order: Pick<PlantingOrder, "id" | "partner" | "treeCount">,
  records: readonly RecordedTrees[],
  signal: AbortSignal,
): Promise<readonly RecordedTrees[]> =>
  claims.run(undefined, () => {
    signal.throwIfAborted();
    return db.transaction(async (transaction) => {
      await lockClaims(transaction, order.partner);
      return creditOrder(transaction, order, records);
    });
  });

/** Returns the stages at which polls of an order return nothing more. Later reports are recorded nevertheless. */
const listFinalStages = (
  { timeline }: PlantingOrder,
  { isVerificationPolled }: PlantingPartner,
): readonly OrderStage[] =>
  isVerificationPolled
    ? ["planted_and_verified"]
    : ORDER_STAGES.filter((stage) => isTimelineComplete(timeline, stage));

/**
 * Polls the partner for updates of an order and records them. An order that is not placed is placed first, at its first
 * poll, or because a restore of the database has lost that.
 * @returns `nextPollMs`: the time until the next poll; null for the configured interval
 */
export const pollPlantingOrder = async (
  context: PlantingContext,
  orderId: number,
  signal: AbortSignal,
): Promise<{ readonly isFinished: boolean; readonly nextPollMs: number | null }> => {
  const { db, clock } = context;
  await placePlantingOrder(context, orderId, signal);
  const { order, partner, partnerOrder } = await readPlantingOrder(context, orderId);
  const finalStages = listFinalStages(order, partner);
  let nextPollMs: number | null = null;
  if (!finalStages.includes(order.stage)) {
    const updates = await partner.fetchUpdates(partnerOrder, {
      now: clock.now(),
      signal,
      claimTrees: (records) => claimTrees(context, order, records, signal),
    });
    await recordPlantingFacts(context, orderId, updates.facts, "partner");
    ({ nextPollMs } = updates);
  }
  // It reads the stage again, because a fact may have been withdrawn since.
  const isFinished = await markPlantingOrderPolled(db, orderId, clock.now(), finalStages);
  return { isFinished, nextPollMs };
};
