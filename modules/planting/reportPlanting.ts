import type { FactSource } from "./facts.sql.ts";
import { findPlantingOrderByPublicId } from "./orders.sql.ts";
import type { PlantingReport } from "./fact.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { WakeContext } from "./context.ts";
import { recordPlantingFacts } from "./recordPlantingFacts.ts";
import { requireOrder } from "./order.rules.ts";
import type { RecordedFact } from "./settleFacts.ts";

/**
 * Records a report by a partner or an operator and wakes the order's workflow.
 * @throws DomainError record_not_found or request_invalid; nothing of the report is recorded then
 */
export const reportPlanting = async (
  context: WakeContext & Partial<OperatorContext>,
  report: PlantingReport,
  source: FactSource,
): Promise<readonly RecordedFact[]> => {
  const order = requireOrder(await findPlantingOrderByPublicId(context.db, report.order));
  const recorded = await recordPlantingFacts(
    context,
    order.id,
    report.facts,
    source,
    report.timeline,
  );
  await context.wakeOrder(order.id);
  return recorded;
};
