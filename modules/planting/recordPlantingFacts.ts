import { listFacts } from "./facts.sql.ts";
import type { FactSource } from "./facts.sql.ts";
import { findPlantingOrder, lockPlantingOrder } from "./orders.sql.ts";
import type { PlantingFact, PlantingReport } from "./fact.rules.ts";
import type { PlantingOrder } from "./order.rules.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { Context } from "../../runtime/context.ts";
import { recordMilestones, changeTimeline, recordFacts, storeProgress } from "./settleFacts.ts";
import { requireOrder } from "./order.rules.ts";
import type { RecordedFact } from "./settleFacts.ts";

/**
 * Records reported facts of an order, and the tallies that they change, in one transaction. Facts may come in any order
 * and repeatedly.
 * @param reported the facts, or a function that returns them for the locked order
 * @param timeline the shape of the order's timeline, if the report says it
 * @throws DomainError record_not_found, or request_invalid if a fact is dated in the future, the timeline cannot change, or
 *   a partner reports too many facts that do not take effect
 */
export const recordPlantingFacts = (
  { db, clock, actor }: Context & Partial<OperatorContext>,
  orderId: number,
  reported: readonly PlantingFact[] | ((order: PlantingOrder) => readonly PlantingFact[]),
  source: FactSource,
  timeline?: TimelineShape,
): Promise<readonly RecordedFact[]> =>
  db.transaction(async (transaction) => {
    const before = requireOrder(await lockPlantingOrder(transaction, orderId));
    const now = clock.now();
    const facts = typeof reported === "function" ? reported(before) : reported;
    const reached = await listFacts(transaction, orderId, ["accepted"]);
    const changed = await changeTimeline(transaction, before, timeline);
    const { order, recorded } = await recordFacts(transaction, changed, facts, { source, now });
    if (order !== before) {
      await storeProgress(transaction, before, order);
      await recordMilestones(transaction, reached, order, now);
    }
    if (actor) {
      const details = { facts: recorded.map(({ stage, outcome }) => ({ stage, outcome })) };
      await recordAction(transaction, actor, now, {
        action: "evidence.record",
        accountId: before.accountId,
        subject: String(orderId),
        details,
      });
    }
    return recorded;
  });

/**
 * Records a report by a partner or an operator. The order's workflow finds it at its next poll.
 * @throws DomainError record_not_found or request_invalid; nothing of the report is recorded then
 */
export const reportPlanting = async (
  context: Context & Partial<OperatorContext>,
  { order: publicId, facts, timeline }: PlantingReport,
  source: FactSource,
): Promise<readonly RecordedFact[]> => {
  const { id } = requireOrder(await findPlantingOrder(context.db, publicId));
  return recordPlantingFacts(context, id, facts, source, timeline);
};
