import type { DatabasePool } from "slonik";
import type { z } from "zod";
import type { FactSource } from "../../db/planting/facts.ts";
import { findPlantingOrderByPublicId } from "../../db/planting/orders.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import type { plantingReport } from "../../domain/planting/fact.ts";
import type { RecordedFact } from "./recordPlantingFacts.ts";
import { recordPlantingFacts } from "./recordPlantingFacts.ts";

/**
 * Records what somebody has reported of an order by its public id.
 * @param deps.wakeOrder tells the order's workflow; it would find out by itself later
 * @throws DomainError record_not_found or request_invalid, and then nothing of the report is on record
 */
export const reportPlanting = async (
  deps: {
    readonly db: DatabasePool;
    readonly clock: Clock;
    readonly wakeOrder: (orderId: number) => Promise<void>;
  },
  report: z.output<typeof plantingReport>,
  source: FactSource,
): Promise<readonly RecordedFact[]> => {
  const order = await findPlantingOrderByPublicId(deps.db, report.order);
  if (!order) {
    throw new DomainError("record_not_found", "failed to find planting order");
  }
  const recorded = await recordPlantingFacts(deps, order.id, report.facts, source);
  await deps.wakeOrder(order.id);
  return recorded;
};
