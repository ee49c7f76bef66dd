import { DomainError } from "../../runtime/errors.rules.ts";
import type { PlantingOrder } from "./order.rules.ts";

export const ORDER_NOT_FOUND = "failed to find planting order";

/** @throws DomainError record_not_found if there is no order */
export const requireOrder = (order: PlantingOrder | null): PlantingOrder => {
  if (order === null) {
    throw new DomainError("record_not_found", ORDER_NOT_FOUND);
  }
  return order;
};
