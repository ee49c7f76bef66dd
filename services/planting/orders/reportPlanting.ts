import type { DatabasePool } from "slonik";
import type { FactSource } from "../../../db/planting/facts.ts";
import { findPlantingOrderByPublicId } from "../../../db/planting/orders.ts";
import type { Actor } from "../../../domain/accounts/audit.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { PlantingReport } from "../../../domain/planting/fact.ts";
import { recordPlantingFacts } from "./recordPlantingFacts.ts";
import { requireOrder } from "./requireOrder.ts";
import type { RecordedFact } from "./settleFacts.ts";

/**
 * Records a report by a partner or an operator and wakes the order's workflow.
 * @throws DomainError record_not_found or request_invalid; nothing of the report is recorded then
 */
export const reportPlanting = async (
  deps: {
    readonly db: DatabasePool;
    readonly clock: Clock;
    /** The operator who reports, if it is not the partner. */
    readonly actor?: Actor;
    readonly wakeOrder: (orderId: number) => Promise<void>;
  },
  report: PlantingReport,
  source: FactSource,
): Promise<readonly RecordedFact[]> => {
  const order = requireOrder(await findPlantingOrderByPublicId(deps.db, report.order));
  const recorded = await recordPlantingFacts(deps, order.id, report.facts, source, report.timeline);
  await deps.wakeOrder(order.id);
  return recorded;
};
