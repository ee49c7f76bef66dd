import type { PlantingOrder } from "../../../domain/planting/order.ts";
import { plantingOrderWorkflowId } from "../../../workflows/workflowIds.ts";

/** @param deployment the deployment's name in Temporal */
export const presentOrder = (deployment: string, order: PlantingOrder) => ({
  id: order.id,
  public_id: order.publicId,
  evidence_order_id: order.shownId,
  evidence_public_id: order.shownPublicId,
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
  workflow_id: plantingOrderWorkflowId(deployment, order.id),
});
